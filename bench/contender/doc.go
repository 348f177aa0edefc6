// Package contender knows the operators that are compared, and builds, starts and ends
// them. Each does what bench/contract.md says.
//
// What it guarantees:
//
//   - A contender is built once: its program stays in the user's cache directory under a
//     hash of its source, or is brought up to date by a tool that knows what is stale.
//     However many processes want it at the same time, one builds and the others wait.
//   - One whose toolchain is not on this machine, or too old, says so, in one line: see
//     [Contender.Missing].
//   - Who has passed a suite is known as the very program that it was: see
//     [Program.Passed].
//   - No process outlives the context that it was started with. It is ended by SIGTERM,
//     and killed 10 s later. If this process is killed, the kernel kills it too (on Linux).
//   - It gets what the contract says, and nothing else of the user's environment but PATH,
//     HOME, TMPDIR and JAVA_HOME. Its output goes to a file.
package contender
