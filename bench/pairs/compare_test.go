package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is a template of a test file. AMOUNT is twice as large in the change as in the base, so the
// change does twice the allocations and writes.
const quick = `package p

import "testing"

var held []*int

func BenchmarkWork(b *testing.B) {
	b.Run("part=1/2", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			held = held[:0]
			for range AMOUNT {
				held = append(held, new(int))
			}
		}
		b.ReportMetric(AMOUNT, "writes/object")
	})
}

func BenchmarkONLY(b *testing.B) {}
`

// stuck is a test file whose benchmark never ends. The benchmark writes to a FIFO when it starts.
const stuck = `package p

import (
	"os"
	"testing"
)

func BenchmarkStuck(b *testing.B) {
	if err := os.WriteFile(os.Getenv("PAIRS_FIFO"), []byte("stuck"), 0); err != nil {
		b.Fatal(err)
	}
	select {}
}
`

// repository makes a git repository with two commits and changes into it. It returns a folder of
// the test that holds all temporary files.
func repository(t *testing.T, base, change string) (temporary string) {
	t.Helper()
	temporary = t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	t.Chdir(t.TempDir())
	git := func(arguments ...string) {
		t.Helper()
		if _, err := run(t.Context(), ".", "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.org"}, arguments...)...); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("p", 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "--quiet")
	write("go.mod", "module example.org/p\n\ngo 1.26.0\n")
	write("p/p_test.go", base)
	git("add", ".")
	git("commit", "--quiet", "-m", "Base")
	write("p/p_test.go", change)
	git("commit", "--quiet", "-a", "-m", "Change")
	return temporary
}

func small() options {
	return options{
		base: "HEAD~1", change: "HEAD", pairs: 2, programs: []program{{bench: "p", pkg: "./p"}},
		benchtime: time.Millisecond, limit: 5 * time.Minute, progress: newProgress(screen.To(io.Discard)),
	}
}

// nothingLeft checks that no worktree and no temporary file remains. It ignores the temporary
// folders of the go command.
func nothingLeft(t *testing.T, temporary string) {
	t.Helper()
	worktrees, err := run(context.WithoutCancel(t.Context()), ".", "git", "worktree", "list", "--porcelain")
	if err != nil || strings.Count(string(worktrees), "worktree ") != 1 {
		t.Errorf("the worktrees are %s (%v), want the one of the repository", worktrees, err)
	}
	left, err := filepath.Glob(filepath.Join(temporary, "bellerophon-pairs-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v (%v)", left, err)
	}
}

func TestAChangeThatDoesTwiceAsMuchIsFoundAndNothingIsLeft(t *testing.T) {
	base := strings.NewReplacer("AMOUNT", "50", "ONLY", "Gone").Replace(quick)
	base += "\nfunc BenchmarkFails(b *testing.B) { b.Fatal(`odd`) }\n"
	change := strings.NewReplacer("AMOUNT", "100", "ONLY", "New").Replace(quick)
	temporary := repository(t, base, change)
	options := small()
	var said bytes.Buffer
	options.progress = newProgress(screen.To(&said))
	got, err := compare(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, temporary)
	found := map[string]ratio{}
	for _, ratio := range got.Ratios {
		if ratio.Benchmark != "p.Work/part=1/2" {
			t.Errorf("there is a ratio of %s, which is not a benchmark of both", ratio.Benchmark)
		}
		found[ratio.Unit] = ratio
	}
	for _, unit := range []string{"B/op", "allocs/op", "writes/object"} {
		if ratio, has := found[unit]; !has || !closeTo(*ratio.Mean, 2, 0.05) || !ratio.Worse || ratio.Pairs != 2 {
			t.Errorf("of %s found %+v, want twice as much of 2 pairs, which is worse", unit, ratio)
		}
	}
	for _, unit := range []string{"ns/op", cpuUnit} {
		if ratio, has := found[unit]; !has || *ratio.Mean <= 0 {
			t.Errorf("of %s found %+v, want a ratio", unit, ratio)
		}
	}
	if err := got.verdict(); err == nil {
		t.Error("the verdict is good, want that it is worse")
	}
	for _, want := range []string{"left out: p.Gone, which change does not have", "left out: ./p BenchmarkFails: measure ./p of base"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
	if len(got.Base) != 40 || len(got.Change) != 40 || got.Base == got.Change {
		t.Errorf("the commits are %s and %s, want two", got.Base, got.Change)
	}
}

func TestABaseOfOneModuleIsComparedWithAChangeOfTwo(t *testing.T) {
	code := strings.NewReplacer("AMOUNT", "50", "ONLY", "Only").Replace(quick)
	temporary := repository(t, code, code+"\n")
	for name, content := range map[string]string{
		"p/go.mod": "module example.org/p/p\n\ngo 1.26.0\n",
		"go.work":  "go 1.26.0\n\nuse (\n\t.\n\t./p\n)\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "-m", "Split"}} {
		if _, err := run(t.Context(), ".", "git", arguments...); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off") // The environment of the caller is for another checkout.
	got, err := compare(t.Context(), small())
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, temporary)
	if len(got.Ratios) == 0 {
		t.Error("there is no ratio, want those of p.Work")
	}
}

func TestARenamedProgramIsComparedWithItsFormerFolder(t *testing.T) {
	content := strings.NewReplacer("AMOUNT", "50", "ONLY", "Both").Replace(quick)
	temporary := repository(t, content, content+"\n")
	for _, arguments := range [][]string{{"mv", "p", "q"}, {"-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "-m", "Rename"}} {
		if _, err := run(t.Context(), ".", "git", arguments...); err != nil {
			t.Fatal(err)
		}
	}
	options := small()
	options.programs = []program{{bench: "p", pkg: "./q", former: "./p"}}
	got, err := compare(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, temporary)
	if len(got.Ratios) == 0 {
		t.Error("there are no ratios")
	}
}

func TestAnInterruptEndsAStuckBenchmarkAndLeavesNothing(t *testing.T) {
	temporary := repository(t, stuck, stuck+"\n")
	fifo := filepath.Join(temporary, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAIRS_FIFO", fifo)
	started, err := os.OpenFile(fifo, os.O_RDWR, 0) // A read-only open would wait for a writer.
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	group := lifecycle.New(t.Context())
	group.Go("interrupt", func(context.Context) error {
		defer interrupt()
		_, err := started.Read(make([]byte, 5))
		return err
	})
	if _, err := compare(ctx, small()); !errors.Is(err, context.Canceled) {
		t.Errorf("compare() = %v, want context.Canceled", err)
	}
	started.Close()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, temporary)
}

func TestAComparisonThatTakesTooLongSaysSo(t *testing.T) {
	temporary := repository(t, quick, quick+"\n")
	options := small()
	options.limit = time.Nanosecond
	if _, err := compare(t.Context(), options); err == nil || !strings.Contains(err.Error(), "raise --limit") {
		t.Errorf("compare() = %v, want an error that names --limit", err)
	}
	nothingLeft(t, temporary)
}

func TestWhatCannotBeComparedIsToldAndLeavesNothing(t *testing.T) {
	valid := strings.NewReplacer("AMOUNT", "1", "ONLY", "Only").Replace(quick)
	for name, test := range map[string]struct {
		change string
		alter  func(*options)
		want   string
	}{
		"a base that does not exist":   {valid + "\n", func(o *options) { o.base = "nowhere" }, `check out --base: git finds no commit "nowhere"`},
		"a change that does not exist": {valid + "\n", func(o *options) { o.change = "nowhere" }, `check out --change: git finds no commit "nowhere"`},
		"a change that does not build": {"package p\n\nfunc f() { return 1 }\n", func(*options) {}, "build ./p of change"},
		"nothing in common":            {strings.NewReplacer("Work", "Play", "Only", "Other").Replace(valid), func(*options) {}, "no selected benchmark in common"},
		"a change that fails":          {strings.Replace(valid, "b.ReportAllocs()", "b.Fatal(`odd`)", 1), func(*options) {}, "measure ./p of change"},
	} {
		t.Run(name, func(t *testing.T) {
			temporary := repository(t, valid, test.change)
			options := small()
			test.alter(&options)
			if _, err := compare(t.Context(), options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("compare() = %v, want %q", err, test.want)
			}
			nothingLeft(t, temporary)
		})
	}
}

func TestTheOutcomeIsLinesOnAPipeOrJSON(t *testing.T) {
	outcome := outcome{Base: "b", Change: "c", Pairs: 2, Worse: 1, Ratios: []ratio{
		ratioOf("p.A", "ns/op", []float64{100, 100}, []float64{90, 90}),
		ratioOf("p.A", "allocs/op", []float64{0, 0}, []float64{1, 1}),
	}}
	var out bytes.Buffer
	if err := outcome.print(&out, false, screen.To(&out)); err != nil {
		t.Fatal(err)
	}
	want := "benchmark\tunit\tbase\tchange\tratio\t95 % interval\tverdict\n" +
		"p.A\tns/op\t100\t90\t0.900\t0.900 to 0.900\tok\n" +
		"p.A\tallocs/op\t0\t1\t-\t-\tworse\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := outcome.print(&out, true, screen.To(&out)); err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || read["worse"] != 1.0 || len(read["ratios"].([]any)) != 2 {
		t.Errorf("printed %s (%v), want one worse ratio of two", out.String(), err)
	}
}
