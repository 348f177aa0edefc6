package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// scenarios are those in which whole operators are compared, by their writes and their CPU time. Each operator runs
// on a local cluster of its own.
var scenarios = []string{"burst:n=100", "storm:n=50:m=10", "drift:n=60", "churn:n=50:m=20", "restart:n=100", "idle:n=50:seconds=10"}

// roundLimit bounds one run of a scenario. The first run of a side builds its operator.
const roundLimit = 5 * time.Minute

// useOneControlPlane has both sides use the control plane of this revision, which it builds if it is not built yet.
// Otherwise each side would build its own.
func useOneControlPlane(ctx context.Context, programs []program) error {
	for _, program := range programs {
		if !program.rounds {
			continue
		}
		assets, err := localcluster.Assets(ctx, localcluster.Options{})
		if err != nil {
			return fmt.Errorf("find the control plane: %w", err)
		}
		return os.Setenv("KUBEBUILDER_ASSETS", assets)
	}
	return nil
}

// roundTrials returns a trial for each scenario.
func roundTrials() (trials []trial) {
	for _, scenario := range scenarios {
		trials = append(trials, trial{scenario, []string{scenario}})
	}
	return trials
}

// round runs the operator of a side through a scenario once.
func (s side) round(ctx context.Context, p program, scenario string) ([]sample, error) {
	out, err := os.MkdirTemp(s.binaries, "run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	_, err = run(ctx, s.worktree, s.binary(p), "run", "--contenders", "bellerophon", "--scenarios", scenario,
		"--turns", "1", "--ideal", "0", "--conformance", "skip", "--out", filepath.Join(out, "run"))
	if err != nil {
		return nil, err
	}
	rounds, err := rundir.ReadRounds(filepath.Join(out, "run"))
	if err != nil {
		return nil, err
	}
	var samples []sample
	for _, round := range rounds {
		made, err := sampleOf(scenario, round)
		if err != nil {
			return nil, err
		}
		samples = append(samples, made)
	}
	return samples, nil
}

// sampleOf returns the compared values of a round. A round that is not complete has none.
func sampleOf(scenario string, round rundir.Round) (sample, error) {
	if !round.IsComplete() {
		return sample{}, fmt.Errorf("the round of %s does not count: %s", scenario, cmp.Or(round.Failed, round.Rejected))
	}
	return sample{scenario, 1, map[string]float64{
		"writes/round": round.Measured[rundir.Writes],
		cpuUnit:        round.Measured[rundir.ContenderCPU] * float64(time.Second),
	}}, nil
}
