// Package harness runs the comparison: every contender through every scenario, a number
// of times, and leaves what package outcome describes.
//
// What it guarantees:
//
//   - Nothing is timed before every contender is known to do what bench/contract.md
//     requires, as the very program that is timed: see package qualify. Who fails is left
//     out, and the run says why, as of those whose toolchain is missing.
//   - Each round has an etcd and an API server of its own, which are fresh, and a proxy of
//     its own. A turn goes through all scenarios, and in each through the contenders:
//     forwards, in the next turn backwards (ABBA). So a run that ends early has as many
//     rounds of all, but for one turn.
//   - All contenders are the same user, with the same permissions and no client-side rate
//     limit, and have the same number of reconciles at once, where the setting says so.
//   - In each round, before the contender is started, the ideal client brings some objects
//     to their finished status; they are removed again. They have as many servers as those
//     of the scenario. A round counts only if the time of its ideal client is within 10 % of
//     the median of all rounds of the run in which it did the same, whatever they are of.
//     Rounds that do not count stay in the folder, and are repeated twice at most. Where no
//     round of a measurement counts then, the one that is nearest to the median does, and
//     is marked as noisy.
//   - What a contender fails at fails its round alone. What the harness or the cluster
//     fails at rejects the round. The run goes on.
//   - A run that was interrupted goes on where it was: rounds that are there are not
//     repeated. All rounds of a contender are of the very same program.
//   - Limits of the memory and numbers of workers are swept in the first two turns alone:
//     they show what changes with them, and goals are judged by the defaults.
//
// The rate of open loads is set once for all rounds of a run, as a share of the median of
// what the ideal client reached until the first of them with objects of as many servers:
// see ceiling.json.
package harness
