// Package report reads the folder of a run of the comparison (see package rundir) and shows it:
// as report.md, report.html and pictures, as goals with their verdicts, and as time series in a
// browser.
//
// Its rules:
//   - Nothing is left out. Every complete round is in a median, and noisy ones are marked. Other
//     rounds, and contenders that were left out, are listed with the reason. Losses are listed as wins
//     are.
//   - A ratio of a table divides two values of one run. Runs are never mixed.
//   - Goals are judged by the 95 % interval of the ratios within turns.
//   - A p99 needs 1,000 latencies. It is taken over the latencies of all rounds together, if the rounds
//     kept them. With fewer it is called the maximum.
//   - report.md depends on run.json and the rounds alone, so that a test can compare the committed
//     reports with their rounds.
//   - Prometheus gets a copy of the run's data, because it changes the folder that it runs on.
//   - A kept run has its time series in one file of OpenMetrics text. The charts of report.html read it, and
//     promtool imports it into a Prometheus.
//   - The page, the graphs of Prometheus and the dashboard for Grafana take their panels from one list.
//   - report.html needs no network: scripts, styles and data are in the file.
//
// Each time series has one recording rule in rules.yml, to which contenders add the names of their
// metrics. The rule maps these names to one, and identifies the contender by the target's label
// "contender".
package report
