// Package pipeline measures the whole pipeline in one process, without an API server:
//
//	go test -run '^$' -bench . -benchmem ./bench/pipeline
//
// The benchmarks of single stages are in the package of each stage.
package pipeline
