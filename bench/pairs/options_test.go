package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	valid := options{base: "main", change: "HEAD", pairs: 10, benchtime: time.Second, limit: time.Hour}
	if err := valid.validate(); err != nil {
		t.Fatal(err)
	}
	for want, alter := range map[string]func(*options){
		"--base":      func(o *options) { o.base = "" },
		"--change":    func(o *options) { o.change = "" },
		"--pairs":     func(o *options) { o.pairs = 9 },
		"--benchtime": func(o *options) { o.benchtime = 0 },
		"--limit":     func(o *options) { o.limit = time.Second },
		"--only":      func(o *options) { o.only = "(" },
	} {
		altered := valid
		alter(&altered)
		if err := altered.validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("validate() = %v, want an error about %s", err, want)
		}
	}
}

func TestProgramsAreSelectedByTheirNames(t *testing.T) {
	got, err := selectPrograms(programs, "operators,pipeline")
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, program := range got {
		packages = append(packages, program.pkg)
	}
	if want := []string{"./operators", "./streams", "./bench/pipeline"}; !slices.Equal(packages, want) {
		t.Errorf("selectPrograms() = %v, want %v", packages, want)
	}
	for _, list := range []string{"", "core,", "cores", "core,core"} {
		if got, err := selectPrograms(programs, list); err == nil {
			t.Errorf("selectPrograms(%q) = %v, want an error", list, got)
		}
	}
}

func TestOperatorsAreComparedOnlyOnDemand(t *testing.T) {
	if got := defaults(); slices.Contains(got, operatorBench) || len(got) == 0 {
		t.Errorf("without --bench %v are compared", got)
	}
	if got, err := selectPrograms(programs, operatorBench); err != nil || len(got) != 1 || !got[0].rounds {
		t.Errorf("selectPrograms(%s) = %v, %v", operatorBench, got, err)
	}
}

func TestTheValuesOfARoundAreItsWritesAndItsCPUTime(t *testing.T) {
	round := rundir.Round{Measured: rundir.Measured{rundir.Writes: 500, rundir.ContenderCPU: 0.25}}
	got, err := sampleOf("burst:n=100", round)
	want := sample{"burst:n=100", 1, map[string]float64{"writes/round": 500, "cpu-ns/op": 250e6}}
	if err != nil || got.name != want.name || !maps.Equal(got.values, want.values) {
		t.Errorf("sampleOf() = %v, %v, want %v", got, err, want)
	}
	round.Failed = "it did not converge"
	if got, err := sampleOf("burst:n=100", round); err == nil || !strings.Contains(err.Error(), round.Failed) {
		t.Errorf("sampleOf() of a failed round = %v, %v", got, err)
	}
}
