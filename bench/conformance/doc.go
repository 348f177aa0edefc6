// Package conformance checks that a process follows bench/contract.md: each numbered behaviour,
// every field of the children, and that nothing is written when nothing changed. A contender that
// fails a required check ([Report.Err]) is not timed. A check that is only reported appears as
// "not met" in the report and excludes no contender.
//
//	go test ./bench/conformance -run Contenders -v -contender=quarkus
//
// [Qualify] decides which contenders may be timed: a contender qualifies if its current build passed
// all required checks.
//
// The package guarantees the following:
//
//   - A pass is recorded only after all checks ran, and only for that build and that version of the
//     suite. So the suite runs once for each build of a contender. It does not matter whether the
//     suite's own test or a run of the comparison needs the result first. A failure is not recorded.
//   - The process talks to the API server through a proxy of this package, over verified TLS and
//     HTTP/2. The proxy sees each request of the process and no other client's requests. A check
//     can make requests fail and end watches.
//   - The expected objects are a second, independent statement of the contract (children.yaml),
//     completed by the API server's own defaults. They depend on no contender's code.
//   - A check waits for each expected event and never assumes it after a fixed time. Only the
//     absence of writes is observed for a fixed time ([Options.Quiet]).
package conformance
