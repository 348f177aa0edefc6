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
//     to their finished status; they are removed again. A round counts only if the time of
//     its ideal client is within 10 % of the median of all rounds of the run, whatever they
//     are of. Rounds that do not count stay in the folder, and are repeated twice at most.
//     What a measurement still lacks then is taken from its rejected rounds, those first
//     that are nearest to the median: they count, and are marked as noisy.
//   - What a contender fails at fails its round alone. What the harness or the cluster
//     fails at rejects the round. The run goes on.
//   - A run that was interrupted goes on where it was: rounds that are there are not
//     repeated.
//
// The rate of open loads is set once for all rounds of a run, as a share of the median of
// what the ideal client reached until the first of them: see ceiling.json.
//
// "Best passing size": of the limits of the memory of a contender, the best is the smallest
// whose rounds all pass, in which it takes no more than 1.1 times the time, and no more
// than 1.25 times the CPU, of its default: see [BestLimit].
package harness
