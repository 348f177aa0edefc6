// Package devtest helps tests of `bellerophon dev` with a real node: it copies sample projects, runs
// programs in containers, reads their files, and waits for a Status.
package devtest
