// Package conformance checks that a process does what bench/contract.md says: each of its
// numbered behaviours, every field of the children, and that nothing is written when
// nothing changed. A contender that fails a required check ([Report.Err]) is not timed.
// A check that is reported says "not met" in the report, and keeps nobody out.
//
//	go test ./bench/conformance -run Contenders -v -contender=quarkus
//
// What it guarantees:
//
//   - The process talks to the API server through a proxy of this package, over verified
//     TLS and HTTP/2, so that each of its requests is seen, whoever else writes to the
//     cluster, and so that requests can fail and watches end when a check wants them to.
//   - What is expected is written down here once more, from the contract
//     (children.yaml), and completed by the API server's own defaults: it depends on no
//     contender's code.
//   - Nothing is taken for granted after a time: a check waits for what has to come, and
//     only that nothing comes is watched for a while ([Options.Quiet]).
package conformance
