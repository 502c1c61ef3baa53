// Starting other programs.
#pragma once

#include <string>
#include <vector>

#include "zeroshard/base/error.h"

namespace zeroshard::cli {

// Where the shell would find it: the path itself if it has a slash, else searched on the PATH.
// Throws ConfigError (`remedy` says what to do) where there is no such program.
std::string find_program(const std::string& name, const std::string& remedy);

// This program's own file.
std::string own_program();

// Where `zeroshard-train` lies, the program that links torch: beside this one, or in libexec of an
// installed tree. A build without torch has none, and then this is where it would be.
std::string trainer_path();

// Becomes the command; returns never, but throws ConfigError where it cannot be started.
[[noreturn]] void become(const std::vector<std::string>& command);

// The same in a child process: an error is printed, and the child ends with its code.
[[noreturn]] void become_or_exit(const std::vector<std::string>& command);

// What to throw where fork() has failed.
StateError cannot_fork(const std::vector<std::string>& command);

// Runs one rank's program and watches over it: it does not outlive this process, nor this process
// its launcher. A program ended by a signal is reported, and this process then waits a moment
// before it ends as well: mpirun stops all ranks when one fails, and they too have something to
// say. Returns the exit code; 128 + number after a signal.
int guard(const std::vector<std::string>& command);

}  // namespace zeroshard::cli
