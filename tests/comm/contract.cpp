#include "tests/comm/contract.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/comm/rank_values.h"
#include "zeroshard/comm/ledger.h"

namespace zeroshard::contract {
namespace {

constexpr DType kAllDTypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::int32, DType::uint8};
constexpr DType kFloats[] = {DType::fp32, DType::bf16, DType::fp16};

void expect(const Communicator& comm, const std::string& what, std::int64_t index, double expected,
            double got) {
  if (expected == got) return;
  throw std::runtime_error(fmt::format("rank {} of {}: {}[{}] is {}, expected {}", comm.rank(),
                                       comm.world_size(), what, index, got, expected));
}

int sum_at(int world_size, int buffer, std::int64_t index) {
  int sum = 0;
  for (int rank = 0; rank < world_size; ++rank) sum += value_at(rank, buffer, index);
  return sum;
}

int max_at(int world_size, int buffer, std::int64_t index) {
  int largest = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    largest = std::max(largest, value_at(rank, buffer, index));
  }
  return largest;
}

void expect_gathered(const Communicator& comm, const RankBuffer& out, int buffer,
                     std::int64_t count) {
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    for (std::int64_t i = 0; i < count; ++i) {
      expect(comm, "gathered", rank * count + i, value_at(rank, buffer, i),
             out.get(rank * count + i));
    }
  }
}

void expect_reduced(const Communicator& comm, const RankBuffer& out, int buffer) {
  for (std::int64_t i = 0; i < out.count(); ++i) {
    expect(comm, "reduced", i, sum_at(comm.world_size(), buffer, comm.rank() * out.count() + i),
           out.get(i));
  }
}

}  // namespace

void all_gather(Communicator& comm, std::int64_t count, DType dtype, Device device) {
  const RankBuffer in = RankBuffer::of_rank(comm.rank(), 0, count, dtype, device);
  RankBuffer out(count * comm.world_size(), dtype, device);
  comm.all_gather_into({{in.read(), out.piece()}}, "gather").wait();
  expect_gathered(comm, out, 0, count);
}

void all_gather_in_place(Communicator& comm, std::int64_t count, Device device) {
  RankBuffer out(count * comm.world_size(), DType::fp32, device);
  for (std::int64_t i = 0; i < count; ++i) {
    out.set(comm.rank() * count + i, value_at(comm.rank(), 0, i));
  }
  ConstPiece own = out.read();
  own.data = static_cast<const std::byte*>(own.data) + comm.rank() * count * 4;
  own.count = count;
  comm.all_gather_into({{own, out.piece()}}, "in place").wait();
  expect_gathered(comm, out, 0, count);
}

void reduce_scatter(Communicator& comm, std::int64_t count, DType in_dtype, DType out_dtype,
                    Device device) {
  const RankBuffer in =
      RankBuffer::of_rank(comm.rank(), 0, count * comm.world_size(), in_dtype, device);
  RankBuffer out(count, out_dtype, device);
  comm.reduce_scatter_into({{in.read(), out.piece()}}, {}, "reduce").wait();
  expect_reduced(comm, out, 0);
}

void reduce_scatter_scales_and_accumulates(Communicator& comm, std::int64_t count, Device device) {
  const RankBuffer in =
      RankBuffer::of_rank(comm.rank(), 0, count * comm.world_size(), DType::bf16, device);
  RankBuffer out(count, DType::fp32, device);
  for (std::int64_t i = 0; i < count; ++i) out.set(i, 100);
  const ReduceOptions options{.scale = 0.5F, .accumulate = true};
  comm.reduce_scatter_into({{in.read(), out.piece()}}, options, "accumulate").wait();
  for (std::int64_t i = 0; i < count; ++i) {
    const double sum = sum_at(comm.world_size(), 0, comm.rank() * count + i);
    expect(comm, "accumulated", i, 100 + sum / 2, out.get(i));
  }
}

void all_reduce(Communicator& comm, std::int64_t count, DType dtype, ReduceOp op, Device device) {
  RankBuffer buffer = RankBuffer::of_rank(comm.rank(), 1, count, dtype, device);
  comm.all_reduce(buffer.piece(), op, "all-reduce").wait();
  for (std::int64_t i = 0; i < count; ++i) {
    const int expected =
        op == ReduceOp::sum ? sum_at(comm.world_size(), 1, i) : max_at(comm.world_size(), 1, i);
    expect(comm, "all-reduced", i, expected, buffer.get(i));
  }
}

void broadcast(Communicator& comm, std::int64_t count, DType dtype, Device device) {
  for (int root = 0; root < comm.world_size(); ++root) {
    RankBuffer buffer = RankBuffer::of_rank(comm.rank(), root, count, dtype, device);
    comm.broadcast(buffer.piece(), root, "broadcast").wait();
    for (std::int64_t i = 0; i < count; ++i) {
      expect(comm, "broadcast", i, value_at(root, root, i), buffer.get(i));
    }
  }
}

void several_in_flight(Communicator& comm, Device device) {
  const std::vector<std::int64_t> counts{0, 1, 63, 257, 1000};
  std::vector<RankBuffer> gather_in, gather_out, reduce_in, reduce_out;
  for (int buffer = 0; buffer < static_cast<int>(counts.size()); ++buffer) {
    const std::int64_t count = counts[static_cast<std::size_t>(buffer)];
    const DType dtype = kFloats[buffer % 3];
    gather_in.push_back(RankBuffer::of_rank(comm.rank(), buffer, count, dtype, device));
    gather_out.emplace_back(count * comm.world_size(), dtype, device);
    reduce_in.push_back(
        RankBuffer::of_rank(comm.rank(), buffer, count * comm.world_size(), dtype, device));
    reduce_out.emplace_back(count, dtype, device);
  }
  std::vector<GatherPair> gathers;
  std::vector<ReducePair> reduces;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    gathers.push_back({gather_in[i].read(), gather_out[i].piece()});
    reduces.push_back({reduce_in[i].read(), reduce_out[i].piece()});
  }
  std::vector<Handle> handles;
  handles.push_back(comm.all_gather_into(gathers, "five units"));
  handles.push_back(comm.reduce_scatter_into(reduces, {}, "bucket"));
  handles.push_back(comm.barrier("between"));
  handles.push_back(comm.all_gather_into({}, "nothing"));
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->wait();
  for (int buffer = 0; buffer < static_cast<int>(counts.size()); ++buffer) {
    const auto at = static_cast<std::size_t>(buffer);
    expect_gathered(comm, gather_out[at], buffer, counts[at]);
    expect_reduced(comm, reduce_out[at], buffer);
  }
}

void rank_order_however_cut(Communicator& comm, Device device) {
  const int ranks = comm.world_size();
  constexpr std::int64_t kCount = 240;
  // Numbers of very different size: another order of adding gives other bits.
  const auto addend = [](int rank, std::int64_t i) {
    return std::ldexp(1.0F + static_cast<float>((rank * 31 + i * 17) % 97) / 97.0F,
                      static_cast<int>((rank * 13 + i * 7) % 40) - 20);
  };
  RankBuffer in(kCount * ranks, DType::fp32, device);
  for (std::int64_t i = 0; i < in.count(); ++i) in.set(i, addend(comm.rank(), i));
  RankBuffer whole(kCount, DType::fp32, device);
  comm.reduce_scatter_into({{in.read(), whole.piece()}}, {}, "whole").wait();
  for (std::int64_t i = 0; i < kCount; ++i) {
    float sum = addend(0, comm.rank() * kCount + i);
    for (int rank = 1; rank < ranks; ++rank) sum += addend(rank, comm.rank() * kCount + i);
    expect(comm, "rank-ordered sum", i, sum, whole.get(i));
  }
  for (const std::int64_t pieces : {2, 3, 8}) {
    const std::int64_t each = kCount / pieces;
    std::vector<RankBuffer> cut_in, cut_out;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      RankBuffer& part = cut_in.emplace_back(each * ranks, DType::fp32, device);
      cut_out.emplace_back(each, DType::fp32, device);
      for (std::int64_t i = 0; i < each * ranks; ++i) {
        part.set(i, in.get((i / each) * kCount + piece * each + i % each));
      }
    }
    std::vector<ReducePair> pairs;
    for (std::size_t i = 0; i < cut_in.size(); ++i) {
      pairs.push_back({cut_in[i].read(), cut_out[i].piece()});
    }
    comm.reduce_scatter_into(pairs, {}, "cut").wait();
    for (std::int64_t i = 0; i < kCount; ++i) {
      expect(comm, "cut sum", i, whole.get(i),
             cut_out[static_cast<std::size_t>(i / each)].get(i % each));
    }
  }
}

void siblings_have_their_own_order(Communicator& comm, Device device) {
  const auto sibling = comm.make_sibling();
  RankBuffer one = RankBuffer::of_rank(comm.rank(), 1, 5000, DType::fp32, device);
  RankBuffer two = RankBuffer::of_rank(comm.rank(), 2, 7000, DType::fp32, device);
  const RankBuffer shard = RankBuffer::of_rank(comm.rank(), 3, 600, DType::fp32, device);
  RankBuffer three(600 * comm.world_size(), DType::fp32, device);
  RankBuffer four(600 * comm.world_size(), DType::fp32, device);
  std::vector<Handle> handles;
  const auto call = [&](bool first) {
    Communicator& through = first ? comm : *sibling;
    RankBuffer& buffer = first ? one : two;
    RankBuffer& full = first ? three : four;
    handles.push_back(through.all_reduce(buffer.piece(), ReduceOp::max, first ? "one" : "two"));
    handles.push_back(through.all_gather_into({{shard.read(), full.piece()}}, "three"));
  };
  call(comm.rank() % 2 == 0);
  call(comm.rank() % 2 != 0);
  for (const Handle& handle : handles) handle.wait();
  for (std::int64_t i = 0; i < one.count(); ++i) {
    expect(comm, "one", i, max_at(comm.world_size(), 1, i), one.get(i));
    expect(comm, "two", i, max_at(comm.world_size(), 2, i), two.get(i));
  }
  expect_gathered(comm, three, 3, 600);
  expect_gathered(comm, four, 3, 600);
}

void a_caller_between_an_engines_operations(Communicator& comm, Device device) {
  const auto gathers = comm.make_sibling(), reductions = comm.make_sibling();
  const int ranks = comm.world_size();
  RankBuffer own = RankBuffer::of_rank(comm.rank(), 3, 900, DType::fp32, device);
  const RankBuffer shard = RankBuffer::of_rank(comm.rank(), 4, 700, DType::fp32, device);
  RankBuffer first(700 * ranks, DType::fp32, device), second(700 * ranks, DType::fp32, device);
  RankBuffer reduced(700, DType::fp32, device);
  const Piece own_piece = own.piece(), one = first.piece(), two = second.piece();
  std::vector<Handle> handles{gathers->all_gather_into({{shard.read(), one}}, "block.1")};
  const auto call_own = [&] {
    handles.push_back(comm.all_reduce(own_piece, ReduceOp::max, "the caller's"));
  };
  if (comm.rank() % 2 == 0) call_own();  // before the last unit, which the other ranks skipped
  handles.push_back(gathers->all_gather_into({{shard.read(), two}}, "block.2"));
  if (comm.rank() % 4 == 1) call_own();
  handles[0].wait();
  const Piece sum = reduced.piece();
  handles.push_back(reductions->reduce_scatter_into({{one.read(), sum}}, {}, "block.2"));
  if (comm.rank() % 4 == 3) call_own();
  for (const Handle& handle : handles) handle.wait();
  for (std::int64_t i = 0; i < own.count(); ++i) {
    expect(comm, "the caller's", i, max_at(ranks, 3, i), own.get(i));
  }
  for (std::int64_t i = 0; i < reduced.count(); ++i) {
    expect(comm, "the engine's sum", i, ranks * value_at(comm.rank(), 4, i), reduced.get(i));
  }
}

void siblings_of_several_engines(Communicator& comm) {
  const auto use = [&](Communicator& sibling, int number) {
    float value = static_cast<float>(comm.rank() + number);
    sibling.all_reduce({&value, 1, DType::fp32}, ReduceOp::max, "engine").wait();
    expect(comm, "engine", number, comm.world_size() - 1 + number, value);
  };
  std::vector<std::unique_ptr<Communicator>> engines;
  for (int i = 0; i < 10; ++i) engines.push_back(comm.make_sibling());
  for (int i = 9; i >= 0; --i) use(*engines[static_cast<std::size_t>(i)], i);
  engines.clear();
  for (int i = 0; i < 50; ++i) use(*comm.make_sibling(), i);
}

// Gathers into one of two buffers in turn, copies it, and reduces the copy onto the shard, whose
// elements grow by the number of ranks over two each time.
void steps_without_waiting(Communicator& comm, Device device) {
  if (device == kCpu) return;
  constexpr std::int64_t kCount = 300;
  constexpr std::size_t kSteps = 6;
  const Stream compute = Stream::make(device);
  compute.run([&] {
    RankBuffer shard = RankBuffer::of_rank(comm.rank(), 0, kCount, DType::fp32, device);
    std::vector<RankBuffer> full, copies;
    for (int i = 0; i < 2; ++i) {
      full.emplace_back(kCount * comm.world_size(), DType::fp32, device);
      copies.emplace_back(kCount * comm.world_size(), DType::fp32, device);
    }
    const Piece part = shard.piece();
    for (std::size_t step = 0; step < kSteps; ++step) {
      const Piece out = full[step % 2].piece(), copy = copies[step % 2].piece();
      comm.all_gather_into({{part.read(), out}}, "gather").wait(compute);
      copy_bytes(compute, copy.data, device, out.data, device, out.bytes());
      comm.reduce_scatter_into({{copy.read(), part}}, {.scale = 0.5F}, "reduce").wait(compute);
    }
    const double growth = std::pow(comm.world_size() / 2.0, kSteps);
    for (std::int64_t i = 0; i < kCount; ++i) {
      expect(comm, "shard", i, value_at(comm.rank(), 0, i) * growth, shard.get(i));
    }
  });
}

void between_tiers(Communicator& comm, std::int64_t count, Device device) {
  const Stream compute = device == kCpu ? Stream::current(kCpu) : Stream::make(device);
  compute.run([&] {
    const RankBuffer plain = RankBuffer::of_rank(comm.rank(), 0, count, DType::bf16);
    const RankBuffer values = RankBuffer::of_rank(comm.rank(), 1, count, DType::bf16);
    const Buffer pinned = Buffer::pinned(device, plain.read().bytes());
    ConstPiece from_pinned = values.read();
    if (count > 0) {
      std::memcpy(pinned.data(), from_pinned.data, static_cast<std::size_t>(pinned.bytes()));
      from_pinned.data = pinned.data();
    }
    const std::int64_t full = count * comm.world_size();
    RankBuffer first(full, DType::bf16, device), second(full, DType::bf16, device);
    RankBuffer one(count, DType::fp32), two(count, DType::fp32);
    for (std::int64_t i = 0; i < count; ++i) two.set(i, 100);
    const Piece out_first = first.piece(), out_second = second.piece();
    comm.all_gather_into({{from_pinned, out_second}}, "pinned").wait(compute);
    comm.all_gather_into({{plain.read(), out_first}, {from_pinned, out_second}}, "both")
        .wait(compute);
    const Handle replaced = comm.reduce_scatter_into({{out_first.read(), one.piece()}}, {}, "down");
    const ReduceOptions adding{.scale = 0.5F, .accumulate = true};
    comm.reduce_scatter_into({{out_second.read(), two.piece()}}, adding, "down and add").wait();
    replaced.wait();
    expect_gathered(comm, first, 0, count);
    expect_gathered(comm, second, 1, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const int ranks = comm.world_size();
      expect(comm, "down", i, ranks * value_at(comm.rank(), 0, i), one.get(i));
      expect(comm, "down and add", i, 100 + ranks * value_at(comm.rank(), 1, i) / 2.0, two.get(i));
    }
  });
}

void ledger_equals_formula(Communicator& comm, Device device) {
  TrafficLedger ledger;
  const auto counted = count_traffic(comm, ledger);
  const std::int64_t others = comm.world_size() - 1;
  const RankBuffer in(100, DType::bf16, device);
  RankBuffer out(100 * comm.world_size(), DType::bf16, device);
  counted->all_gather_into({{in.read(), out.piece()}, {in.read(), out.piece()}}, "a").wait();
  RankBuffer reduced(100, DType::fp32, device);
  counted->reduce_scatter_into({{out.read(), reduced.piece()}}, {}, "a").wait();
  counted->all_reduce(reduced.piece(), ReduceOp::sum, "norm").wait();
  counted->broadcast(reduced.piece(), comm.world_size() - 1, "order").wait();
  counted->barrier("end").wait();
  const auto bytes = [&](Operation operation, const char* label) {
    return static_cast<double>(ledger.entry(operation, label).bytes);
  };
  const double broadcast_sent = comm.rank() == comm.world_size() - 1 ? 400.0 * others : 0.0;
  expect(comm, "gather bytes", 0, 2 * 200.0 * others, bytes(Operation::all_gather, "a"));
  expect(comm, "reduce bytes", 0, 200.0 * others, bytes(Operation::reduce_scatter, "a"));
  expect(comm, "all-reduce bytes", 0, 400.0 * others, bytes(Operation::all_reduce, "norm"));
  expect(comm, "broadcast bytes", 0, broadcast_sent, bytes(Operation::broadcast, "order"));
  expect(comm, "barrier calls", 0, 1,
         static_cast<double>(ledger.entry(Operation::barrier, "end").calls));
  expect(comm, "bytes in all", 0, 400.0 * others + 200 * others + 400 * others + broadcast_sent,
         static_cast<double>(ledger.bytes()));
}

void everything(Communicator& comm, std::int64_t large_count, Device device, Sums sums) {
  for (const std::int64_t count : {0, 1, 7, 1023, 1025}) {
    for (const DType dtype : kAllDTypes) {
      all_gather(comm, count, dtype, device);
      broadcast(comm, count, dtype, device);
      all_reduce(comm, count, dtype, ReduceOp::max, device);
      if (dtype != DType::uint8) all_reduce(comm, count, dtype, ReduceOp::sum, device);
    }
    for (const DType dtype : kFloats) {
      reduce_scatter(comm, count, dtype, dtype, device);
      reduce_scatter(comm, count, dtype, DType::fp32, device);
    }
    all_gather_in_place(comm, count, device);
    between_tiers(comm, count, device);
    reduce_scatter_scales_and_accumulates(comm, count, device);
  }
  all_gather(comm, large_count, DType::fp32, device);
  reduce_scatter(comm, large_count, DType::fp32, DType::fp32, device);
  reduce_scatter(comm, large_count, DType::bf16, DType::fp32, device);
  between_tiers(comm, large_count, device);
  several_in_flight(comm, device);
  siblings_have_their_own_order(comm, device);
  a_caller_between_an_engines_operations(comm, device);
  siblings_of_several_engines(comm);
  steps_without_waiting(comm, device);
  if (sums == Sums::in_rank_order) rank_order_however_cut(comm, device);
  ledger_equals_formula(comm, device);
}

}  // namespace zeroshard::contract
