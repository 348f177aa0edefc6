// Package harness runs the comparison: it measures every contender in every scenario several
// times, and writes the folder that package rundir describes.
//
// What it guarantees:
//
//   - Nothing is timed before the current build of every contender has passed the required
//     checks of bench/contract.md, unless --conformance=skip is given: see package conformance. A
//     contender that fails is left out, and so is one whose toolchain is missing. The run
//     records why.
//   - Each round has its own fresh etcd and API server, and its own proxy. A turn goes through
//     all scenarios, and in each scenario through the contenders: forwards, and in the next turn
//     backwards (ABBA). So in a run that ends early the numbers of rounds differ by one turn at
//     most.
//   - All contenders run as the same user, with the same permissions and without a client-side
//     rate limit. If the setting gives a number of workers, it is the same for all.
//   - In each round, before the contender starts, the ideal client brings some objects to their
//     finished status and removes them. They have as many replicas as the objects of the
//     scenario. A round is marked as noisy if its ideal client's time is more than 10 %
//     (--tolerance) from the median. That median is over all rounds of the run whose ideal client
//     did the same, in any scenario and with any contender. A noisy round counts.
//   - A fault of the contender fails only its round. A fault of the harness or the cluster
//     rejects the round. The run continues in both cases.
//   - Rejected rounds stay in the folder, and are repeated twice at most, in whole turns.
//   - An interrupted run resumes: existing rounds are not repeated. All rounds of a contender
//     use the same build of its program.
//   - Memory limits and numbers of workers are swept only in the first two turns, unless more are asked for. They
//     show the effect of the setting; goals are judged with the defaults.
//
// The rate of open loads is fixed once per run for each number of replicas. It is a share of the
// ideal client's median rate over all rounds up to the first open load with that number of
// replicas. The file ceiling.json keeps that median.
package harness
