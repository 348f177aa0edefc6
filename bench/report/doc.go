// Package report reads the folder that a run of the comparison left (see package outcome)
// and shows it: as report.md, report.html and pictures, as goals that are met or missed,
// and as time series in a browser.
//
// What it promises:
//   - Nothing is left out. Every round is in a median or is listed with the reason why not; a
//     contender that was left out is listed with its reason; a loss is written as a win is.
//   - Rounds that were rejected or failed are in no median.
//   - A ratio divides two medians of one run. Runs are never mixed.
//   - The run is only read. Prometheus works on a copy of its data, because it changes the
//     folder that it is started on.
//   - report.html needs no network: scripts, styles and data are in the file.
//
// The time series are those of rules.yml, one recording rule for each, which maps the names of all
// contenders onto one. A rule finds the contender in the label "contender" of a target.
package report
