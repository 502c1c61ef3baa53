"""Times of several libraries taken in turns, so that whatever else the machine does hits them all."""
import time

MIN_ROUNDS, MAX_ROUNDS = 9, 301


def once(library, work):
    """Seconds of one call on this rank. The library's own barrier before it lines the ranks up."""
    library.barrier()
    begin = time.perf_counter()
    work(library)
    return time.perf_counter() - begin


def in_turns(libraries, round_number):
    """Who goes first changes from round to round."""
    first = round_number % len(libraries)
    return libraries[first:] + libraries[:first]


def rounds_for(libraries, work, seconds, gloo):
    """How many rounds fit into the time: rank 0's word, from one round after a first one to warm."""
    for library in libraries:
        once(library, work)
    took = sum(once(library, work) for library in libraries)
    fitting = int(seconds / max(took, 1e-6))
    return gloo.gather_objects(min(max(fitting, MIN_ROUNDS), MAX_ROUNDS))[0]


def slowest(gloo, mine):
    """By library and round, the time of the rank that took longest: then everyone had the result."""
    everyone = gloo.gather_objects(mine)
    return {name: [max(of_round) for of_round in zip(*(times[name] for times in everyone))]
            for name in mine}


def time_case(libraries, work, seconds, gloo):
    """{library: [seconds by round]} of payload operations, a barrier before each."""
    times = {library.name: [] for library in libraries}
    for number in range(rounds_for(libraries, work, seconds, gloo)):
        for library in in_turns(libraries, number):
            times[library.name].append(once(library, work))
    return slowest(gloo, times)


def time_latency(libraries, work, blocks, gloo, calls=50):
    """The same of operations that line the ranks up themselves: each call of a block is timed."""
    times = {library.name: [] for library in libraries}
    for number in range(blocks):
        for library in in_turns(libraries, number):
            work(library)  # wakes the library's threads
            for _ in range(calls):
                begin = time.perf_counter()
                work(library)
                times[library.name].append(time.perf_counter() - begin)
    return slowest(gloo, times)
