//go:build !race

package replaytest_test

const raceDetector = false
