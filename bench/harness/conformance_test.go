package harness

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

// passes returns a report in which all required checks passed.
func passes() *conformance.Report {
	return &conformance.Report{Outcomes: []conformance.Outcome{{Number: "1.1", Title: "A"}, {Number: "3.6", Title: "B", Err: errors.New("no"), Reported: true}}}
}

// fails returns a report in which two required checks failed.
func fails() *conformance.Report {
	return &conformance.Report{Name: "x", Outcomes: []conformance.Outcome{
		{Number: "1.1", Title: "It creates", Err: errors.New("it did not")}, {Number: "1.2", Title: "B"}, {Number: "4.1", Title: "It deletes", Err: errors.New("it did not")},
	}}
}

// unchecked returns a run whose contenders are built and have no recorded pass. The suite returns
// what report returns, and checked collects the names of the contenders that were checked.
func unchecked(t *testing.T, o Options, report func(name string) (*conformance.Report, error)) (r *run, checked *[]string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	r, _ = fake(t, o, steadyIdeal)
	r.programs = map[string]*contender.Program{}
	for _, c := range r.contenders {
		r.programs[c.Name] = &contender.Program{Contender: c}
	}
	if err := os.MkdirAll(r.conformanceFile(&contender.Program{}, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	checked = &[]string{}
	r.checked = func(_ context.Context, p *contender.Program, _ func(string)) (*conformance.Report, error) {
		*checked = append(*checked, p.Name)
		return report(p.Name)
	}
	return r, checked
}

func TestAContenderThatFailsARequiredCheckIsNotTimed(t *testing.T) {
	o := options(t)
	o.Turns = 1
	r, checked := unchecked(t, o, func(name string) (*conformance.Report, error) {
		if name == "controller-runtime" {
			return fails(), nil
		}
		return passes(), nil
	})
	var printed bytes.Buffer
	skipped := map[string]string{"kube-rs": "no Rust"}
	if err := r.leaveOutUnfit(t.Context(), skipped, screen.To(&printed)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"bellerophon", "controller-runtime", "ideal"}; !slices.Equal(*checked, want) {
		t.Errorf("checked %q, want %q", *checked, want)
	}
	table := r.conformanceFile(r.programs["controller-runtime"], ".txt")
	want := "controller-runtime is left out: it fails checks that bench/contract.md requires: 1.1 It creates, 4.1 It deletes; see " + table
	if !strings.Contains(printed.String(), want+"\n") {
		t.Errorf("printed is\n%s\nwant a line\n%s", printed.String(), want)
	}
	if text, err := os.ReadFile(table); err != nil || !strings.Contains(string(text), "FAILED 4.1 It deletes: it did not") {
		t.Errorf("%s has %q, %v", table, text, err)
	}
	if err := r.begin(skipped); err != nil {
		t.Fatal(err)
	}
	described, err := rundir.ReadRun(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if described.Skipped["controller-runtime"] != want || described.Skipped["kube-rs"] != "no Rust" || !slices.Equal(described.Contenders, []string{"bellerophon", "ideal"}) {
		t.Errorf("the run says that it has %q, and that it skipped %q", described.Contenders, described.Skipped)
	}
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	rounds, err := rundir.ReadRounds(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(rounds) != 2 || slices.ContainsFunc(rounds, func(round rundir.Round) bool { return round.Contender == "controller-runtime" }) {
		t.Errorf("the rounds are %+v, want one of each of the others", rounds)
	}
}

func TestWhoIsKnownToHavePassedIsNotCheckedAgain(t *testing.T) {
	r, checked := unchecked(t, options(t), func(string) (*conformance.Report, error) { return passes(), nil })
	if err := r.programs["bellerophon"].NotePassed(conformance.Version()); err != nil {
		t.Fatal(err)
	}
	if err := r.programs["ideal"].NotePassed("an older suite"); err != nil {
		t.Fatal(err)
	}
	if err := r.leaveOutUnfit(t.Context(), map[string]string{}, screen.To(&bytes.Buffer{})); err != nil {
		t.Fatal(err)
	}
	if want := []string{"controller-runtime", "ideal"}; !slices.Equal(*checked, want) || len(r.contenders) != 3 {
		t.Errorf("checked %q, want %q; %d contenders are left, want 3", *checked, want, len(r.contenders))
	}
}

func TestARunWithoutAContenderThatPassesIsAnError(t *testing.T) {
	r, _ := unchecked(t, options(t), func(string) (*conformance.Report, error) { return fails(), nil })
	err := r.leaveOutUnfit(t.Context(), map[string]string{}, screen.To(&bytes.Buffer{}))
	if err == nil || !strings.Contains(err.Error(), "no contender passes the required checks") {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatTheSuiteFailsAtStopsTheRunAndSaysAWayOut(t *testing.T) {
	broken := errors.New("no cluster")
	r, checked := unchecked(t, options(t), func(string) (*conformance.Report, error) { return nil, broken })
	err := r.leaveOutUnfit(t.Context(), map[string]string{}, screen.To(&bytes.Buffer{}))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "--conformance=skip") || len(*checked) != 1 {
		t.Errorf("after %d checks the error is %v", len(*checked), err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := r.leaveOutUnfit(ctx, map[string]string{}, screen.To(&bytes.Buffer{})); !errors.Is(err, stopped) || errors.Is(err, broken) {
		t.Errorf("after the context ended, the error is %v", err)
	}
}

func TestARunWithoutChecksSaysSo(t *testing.T) {
	o := options(t)
	o.Conformance = "skip"
	r, checked := unchecked(t, o, func(string) (*conformance.Report, error) { return fails(), nil })
	var printed bytes.Buffer
	if err := r.leaveOutUnfit(t.Context(), map[string]string{}, screen.To(&printed)); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(map[string]string{}); err != nil {
		t.Fatal(err)
	}
	described, err := rundir.ReadRun(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(*checked) != 0 || len(described.Contenders) != 3 {
		t.Errorf("checked %q, and %q take part; want none checked and all to take part", *checked, described.Contenders)
	}
	if !slices.Contains(described.Notes, uncheckedNote) || !slices.Contains(described.Flags, "--conformance=skip") || !strings.Contains(printed.String(), "not checked") {
		t.Errorf("the notes are %q, the flags %q, and printed is %q", described.Notes, described.Flags, printed.String())
	}
}

func TestARunThatGoesOnSaysWhoIsLeftOutByNow(t *testing.T) {
	r, _ := unchecked(t, options(t), nil)
	everyone := r.contenders
	ideal := slices.IndexFunc(everyone, func(c contender.Contender) bool { return c.Name == "ideal" })
	without := slices.Delete(slices.Clone(everyone), ideal, ideal+1)
	for _, step := range []struct {
		contenders []contender.Contender
		skipped    map[string]string
	}{
		{without, map[string]string{"ideal": "no Go"}},
		{without, map[string]string{"ideal": "it fails"}},
		{everyone, map[string]string{}},
	} {
		r.contenders = step.contenders
		if err := r.begin(step.skipped); err != nil {
			t.Fatal(err)
		}
		described, err := rundir.ReadRun(r.Dir)
		if err != nil || !maps.Equal(described.Skipped, step.skipped) {
			t.Errorf("the run skipped %q, want %q: %v", described.Skipped, step.skipped, err)
		}
		takesPart := slices.Contains(described.Contenders, "ideal") && described.Resync["ideal"] != ""
		if takesPart == (len(step.skipped) > 0) {
			t.Errorf("the run has the contenders %q with the resyncs %q, though it skipped %q", described.Contenders, described.Resync, step.skipped)
		}
	}
}

func TestARunDoesNotGoOnWithAnotherBuildOfAContender(t *testing.T) {
	r, _ := unchecked(t, options(t), nil)
	for _, program := range r.programs {
		program.Identity = "1"
	}
	if err := r.begin(nil); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(nil); err != nil {
		t.Errorf("the same builds: %v", err)
	}
	r.programs["ideal"].Identity = "2"
	if err := r.begin(nil); err == nil || !strings.Contains(err.Error(), "another build of ideal") || !strings.Contains(err.Error(), "another folder") {
		t.Errorf("another build: %v", err)
	}
}
