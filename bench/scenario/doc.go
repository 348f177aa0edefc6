// Package scenario is what the contenders are put through: each scenario starts a
// contender, puts a load on the cluster, and measures what comes of it. [Describe] says what
// each is.
//
// What it guarantees:
//
//   - Load and judgement go straight to the API server; the contender goes through the
//     proxy. A watch of the harness's own says when an object is finished: its status is,
//     with the observedGeneration of its generation.
//   - Steady load and churn are open loops: a request is sent when it is due, whether or not
//     those before it were answered, and latencies count from when it was due.
//   - No load begins before the contender watches and has been quiet for a while, and no
//     window of CPU and requests ends before it is quiet again. So what a contender does
//     later, behind the last finished status, is in its bill.
//   - Everything has a time limit. What the contender fails at is a [Failure]; any other
//     error is of the harness or of the cluster.
package scenario
