// Package contender holds the table of the compared operators, and builds, starts and stops them.
// Each of them follows bench/contract.md.
//
// The package guarantees the following:
//
//   - A contender is built once. Its program stays in the user's cache directory under a hash of
//     its source, or a tool that detects stale programs updates it. If several processes need it
//     at the same time, one process builds and the others wait.
//   - If the toolchain of a contender is missing on this machine or too old, [Contender.Missing]
//     says so in one line.
//   - A note that a contender passed a suite holds only for exactly the same program: see
//     [Program.Passed].
//   - No process outlives the context that it was started with. It gets SIGTERM, and is killed 10
//     s later. If this process is killed, the kernel also kills the contender (on Linux).
//   - A contender gets the environment of the contract, and only PATH, HOME, TMPDIR and JAVA_HOME
//     of the user's environment. Its output goes to a file.
package contender
