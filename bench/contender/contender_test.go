package contender

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/affinity"
	"github.com/bellerophon-io/bellerophon/bench/cgroup"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a contender in the form of a shell script.
type script struct {
	tool, text string
}

func (s script) tools() []tool { return []tool{{name: s.tool}} }

func (s script) build(context.Context, *builder, string) (string, error) { return s.text, nil }

func (script) command(program string, _ Settings) *exec.Cmd {
	command := exec.Command("sh", "-c", program)
	command.Env = []string{"EXTRA=extra"}
	return command
}

func (script) version(context.Context, *builder, string) (string, error) { return "sh", nil }

func start(t *testing.T, text string, settings Settings) (*Process, string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	settings.Kubeconfig, settings.Output = "some kubeconfig", output
	program := &Program{Contender: Contender{Name: "script", recipe: script{"sh", text}}, path: text}
	process, err := program.Start(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = process.Stop() })
	return process, output
}

func TestAContenderEndsBySIGTERMAndSaysHowLongItTook(t *testing.T) {
	process, _ := start(t, `trap 'exit 3' TERM; echo here; while :; do sleep 0.05; done`, Settings{})
	awaitOutput(t, process, "here")
	took, err := process.Stop()
	if err != nil || took <= 0 || took > StopGrace {
		t.Errorf("Stop() = %v, %v, want less than %v and no error", took, err, StopGrace)
	}
	if again, err := process.Stop(); again != took || err != nil {
		t.Errorf("the second Stop() = %v, %v, want what the first returned", again, err)
	}
}

func TestAContenderThatDoesNotEndIsKilledWithAllThatItStarted(t *testing.T) {
	process, _ := start(t, `trap '' TERM; sh -c 'trap "" TERM; echo here; while :; do sleep 0.05; done' & wait; wait`, Settings{})
	awaitOutput(t, process, "here")
	process.grace = 200 * time.Millisecond
	if _, err := process.Stop(); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("Stop() = %v, want an error that says that it was killed", err)
	}
}

func TestAContenderThatIsKilledEndsWithAllThatItStartedAndWithoutAnError(t *testing.T) {
	process, _ := start(t, `trap '' TERM; sh -c 'trap "" TERM; echo here; while :; do sleep 0.05; done' & wait; wait`, Settings{})
	awaitOutput(t, process, "here")
	began := time.Now()
	if err := process.Kill(); err != nil {
		t.Errorf("Kill() = %v", err)
	}
	<-process.Done()
	if took, err := process.Stop(); took != 0 || err != nil || time.Since(began) > StopGrace/2 {
		t.Errorf("Stop() = %v, %v, %v after Kill, want what Kill returned, at once", took, err, time.Since(began))
	}
}

func TestAContenderThatHasEndedCannotBeKilled(t *testing.T) {
	process, _ := start(t, `echo "no cluster" >&2; exit 4`, Settings{})
	<-process.Done()
	if err := process.Kill(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("Kill() = %v, want an error that says that it had ended", err)
	}
}

func TestBellerophonGetsTheLeaseAndTheGroupAsFlags(t *testing.T) {
	got := strings.Join(bellerophonArguments(Settings{Lease: "a/leader", LeaseDuration: 15 * time.Second, Shards: "a/group"}), " ")
	for _, want := range []string{"--lease=a/leader", "--lease-duration=15s", "--shards=a/group"} {
		if !strings.Contains(got, want) {
			t.Errorf("the arguments are %q, want %s among them", got, want)
		}
	}
	if alone := strings.Join(bellerophonArguments(Settings{}), " "); strings.Contains(alone, "lease") || strings.Contains(alone, "shards") {
		t.Errorf("the arguments of a process that runs alone are %q", alone)
	}
}

func TestAContenderThatEndsByItselfSaysItsLastLines(t *testing.T) {
	process, _ := start(t, `echo "no cluster" >&2; exit 4`, Settings{})
	<-process.Done()
	for name, err := range map[string]error{"Ready": process.Ready(t.Context()), "Stop": second(process.Stop())} {
		if err == nil || !strings.Contains(err.Error(), "no cluster") || !strings.Contains(err.Error(), "exit status 4") {
			t.Errorf("%s() = %v, want its exit status and its last lines", name, err)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}

func second(_ time.Duration, err error) error { return err }

func TestAContenderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	program := &Program{Contender: Contender{Name: "script", recipe: script{"sh", ""}}, path: `while :; do sleep 0.05; done`}
	process, err := program.Start(ctx, Settings{Kubeconfig: "k", Output: filepath.Join(t.TempDir(), "output")})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-process.Done()
	if _, err := process.Stop(); err != nil {
		t.Errorf("Stop() = %v, want no error: its context ended", err)
	}
}

func TestAContenderGetsTheEnvironmentOfTheContractAndNoOther(t *testing.T) {
	t.Setenv("SECRET", "secret")
	process, output := start(t, `env`, Settings{Workers: 3, Kinds: 7, MetricsPort: 4711, Lease: "a/leader", LeaseDuration: 15 * time.Second, Shards: "a/group"})
	<-process.Done()
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KUBECONFIG=" + absolute(t, "some kubeconfig") + "\n", "METRICS_PORT=4711\n", "WORKERS=3\n", "KINDS=7\n", "LEASE=a/leader\n", "LEASE_SECONDS=15\n", "SHARDS=a/group\n", "EXTRA=extra\n", "PATH="} {
		if !strings.Contains(string(content), want) {
			t.Errorf("its environment lacks %q:\n%s", want, content)
		}
	}
	if strings.Contains(string(content), "secret") {
		t.Errorf("its environment has a variable that is not in the contract:\n%s", content)
	}
	if process.MetricsURL() != "http://127.0.0.1:4711/metrics" {
		t.Errorf("MetricsURL() = %s", process.MetricsURL())
	}
}

func TestReadyWaitsForTheMetrics(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	process, _ := start(t, `while :; do sleep 0.05; done`, Settings{MetricsPort: port})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := process.Ready(ctx); err == nil || !strings.Contains(err.Error(), "does not serve its metrics") {
		t.Errorf("Ready() = %v, want an error that names the metrics", err)
	}
}

func TestSettingsThatAreWrongAreRefused(t *testing.T) {
	program := &Program{Contender: Contender{Name: "script", recipe: script{"sh", ""}}, path: ""}
	for _, settings := range []Settings{
		{}, {Kubeconfig: "k"}, {Kubeconfig: "k", Output: "o", Workers: -1}, {Kubeconfig: "k", Output: "o", MetricsPort: 70000},
	} {
		if _, err := program.Start(t.Context(), settings); err == nil {
			t.Errorf("Start(%+v) = nil, want an error", settings)
		}
	}
}

func TestContendersAreFoundByTheirNames(t *testing.T) {
	found, err := Named("ideal, bellerophon")
	if err != nil || len(found) != 2 || found[0].Name != "ideal" || !found[0].CreatesOnly || found[1].Name != "bellerophon" {
		t.Errorf("Named() = %v, %v", found, err)
	}
	if _, err := Named("pegasus"); err == nil || !strings.Contains(err.Error(), "bellerophon, controller-runtime") {
		t.Errorf("Named() = %v, want an error that names the contenders", err)
	}
}

func TestEachContenderHasAProgramWithManyKindsOrSaysWhyNot(t *testing.T) {
	for _, c := range All() {
		if (c.kinds == nil) != (c.NoKinds != "") {
			t.Errorf("%s has the program %v, and says %q", c.Name, c.kinds, c.NoKinds)
		}
	}
}

func TestAProgramWithManyKindsIsBuiltBesideTheOperator(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	operator := Contender{Name: "two", recipe: emptyFile{}, kinds: emptyFile{}}
	paths := map[string]bool{}
	for _, c := range []Contender{operator, operator.WithKinds()} {
		program, err := c.Build(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		paths[filepath.Base(program.path)] = true
	}
	if !paths["two"] || !paths["two-kinds"] {
		t.Errorf("the programs are %v, want two of them", paths)
	}
}

// emptyFile is a recipe whose program is an empty file of the given name.
type emptyFile struct{ script }

func (emptyFile) build(_ context.Context, b *builder, name string) (string, error) {
	path := filepath.Join(b.cache, name)
	return path, os.WriteFile(path, nil, 0o755)
}

func TestABuildIsKeptUntilItsSourceChanges(t *testing.T) {
	b := &builder{root: t.TempDir(), cache: t.TempDir(), log: io.Discard}
	source := filepath.Join(b.root, "peer")
	write(t, filepath.Join(source, "pom.xml"), "first")
	builds := 0
	build := func() string {
		t.Helper()
		kept, err := b.once(t.Context(), "peer", "peer", []string{"app", "peer.jar"}, func() error {
			builds++
			write(t, filepath.Join(source, "target", "app", "run.jar"), "made")
			write(t, filepath.Join(source, "target", "peer.jar"), "made")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"app/run.jar", "peer.jar"} {
			if content, err := os.ReadFile(filepath.Join(kept, name)); err != nil || string(content) != "made" {
				t.Fatalf("%s has %q, %v", kept, content, err)
			}
		}
		return kept
	}
	first := build()
	write(t, filepath.Join(source, "README.md"), "a page")
	if again := build(); again != first || builds != 1 {
		t.Errorf("the second build: %s after %d builds, want %s after 1", again, builds, first)
	}
	write(t, filepath.Join(source, "pom.xml"), "second")
	if changed := build(); changed == first || builds != 2 {
		t.Errorf("after a change: %s after %d builds, want another one after 2", changed, builds)
	}
}

func TestVersionsAreReadOffTheNamesOfJars(t *testing.T) {
	b := &builder{root: t.TempDir()}
	java := t.TempDir()
	write(t, filepath.Join(java, "java"), "#!/bin/sh\necho 'openjdk version \"21\"' >&2\necho more\n")
	if err := os.Chmod(filepath.Join(java, "java"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", java+string(os.PathListSeparator)+os.Getenv("PATH"))
	program := t.TempDir()
	for _, name := range []string{"io.quarkus.quarkus-core-3.2.1.jar", "io.javaoperatorsdk.operator-framework-core-5.1.jar", "quarkus-core-extra-9.jar"} {
		write(t, filepath.Join(program, "lib", name), "")
	}
	version, err := mavenVersion(t.Context(), b, program, []string{"operator-framework-core", "quarkus-core"})
	if want := `operator-framework-core 5.1, quarkus-core 3.2.1, openjdk version "21"`; err != nil || version != want {
		t.Errorf("mavenVersion() = %q, %v, want %q", version, err, want)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// awaitOutput polls until a contender has printed a text, because a file sends no events.
func awaitOutput(t *testing.T, process *Process, text string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if strings.Contains(lastLines(process.output), text) {
			return
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("the output %q did not appear", text)
		}
	}
}

func TestAContenderStartsOnItsProcessorsAlone(t *testing.T) {
	allowed, err := affinity.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	last := allowed[len(allowed)-1]
	process, output := start(t, `grep Cpus_allowed_list /proc/self/status; echo here; while :; do sleep 0.05; done`, Settings{Processors: []int{last}})
	awaitOutput(t, process, "here")
	said, err := os.ReadFile(output)
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", last); err != nil || !strings.Contains(string(said), want) {
		t.Errorf("the contender says %q, want %q: %v", said, want, err)
	}
}

func TestAContenderThatNeedsMoreMemoryThanItsHardLimitIsKilledAndSaysSo(t *testing.T) {
	limits := cgroup.Limits{MilliCPU: 1000, Memory: 32 << 20}
	if err := cgroup.Check(limits); err != nil {
		t.Skip(err)
	}
	process, output := start(t, `cat /proc/self/cgroup; tail /dev/zero`, Settings{Limits: limits})
	<-process.Done()
	for name, err := range map[string]error{"Err": process.Err(), "Stop": second(process.Stop())} {
		if err == nil || !strings.Contains(err.Error(), "killed by the kernel: it needed more memory than its hard limit of 32Mi") {
			t.Errorf("%s() = %v, want an error that names the limit", name, err)
		}
	}
	if said, err := os.ReadFile(output); err != nil || !strings.Contains(string(said), "bellerophon-") {
		t.Errorf("the contender was in\n%s\nwant a group of its own: %v", said, err)
	}
}

func TestAContenderThatKeepsToItsHardLimitsEndsAsUsual(t *testing.T) {
	limits := cgroup.Limits{MilliCPU: 500, Memory: 32 << 20}
	if err := cgroup.Check(limits); err != nil {
		t.Skip(err)
	}
	process, _ := start(t, `trap 'exit 0' TERM; echo limited; while :; do sleep 0.05; done`, Settings{Limits: limits})
	awaitOutput(t, process, "limited")
	if _, err := process.Stop(); err != nil {
		t.Error(err)
	}
}
