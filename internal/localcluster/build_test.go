package localcluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// fakeGo puts a shell script named go first on PATH. The script logs its calls in calls, and runs
// duringBuild within "go build".
func fakeGo(t *testing.T, duringBuild string) (calls string) {
	t.Helper()
	directory := t.TempDir()
	calls = filepath.Join(directory, "calls")
	module := filepath.Join(directory, "kwok-module")
	for _, name := range stageFiles {
		path := filepath.Join(module, "kustomize", "stage", name)
		write(t, path, "kind: Stage\n", 0o644)
	}
	script := `#!/bin/sh
echo "$1" >>` + calls + `
case "$*" in
*Module.Dir*) echo ` + module + ` ;;
list*) echo "go: downloading example.com/m v1.0.0" >&2; echo example.com/m/a; echo example.com/m/b ;;
build*)
	for argument in "$@"; do case "$argument" in -o=*) output="${argument#-o=}" ;; esac; done
	` + duringBuild + `
	echo example.com/m/a >&2
	echo "a note of the compiler" >&2
	echo example.com/m/b >&2
	echo '#!/bin/sh' >"$output"; chmod +x "$output" ;;
esac
`
	write(t, filepath.Join(directory, "go"), script, 0o755)
	t.Setenv("PATH", directory+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBEBUILDER_ASSETS", "")
	return calls
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func completed(t *testing.T, o Options) Options {
	t.Helper()
	if o.CacheDir == "" {
		o.CacheDir = t.TempDir()
	}
	o, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestABuildHasTheLayoutOfKubebuilderAssetsAndIsKept(t *testing.T) {
	calls := fakeGo(t, "")
	options := completed(t, Options{})
	programs, err := findPrograms(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	directory := filepath.Dir(programs.path("kwok"))
	if filepath.Dir(directory) != options.CacheDir || !strings.HasPrefix(filepath.Base(directory), "controlplane-") {
		t.Errorf("built in %s, want controlplane-<hash> in %s", directory, options.CacheDir)
	}
	for _, name := range append([]string{"kwok"}, components...) {
		if path := filepath.Join(directory, name); programs.path(name) != path || !isUsable(path) {
			t.Errorf("%s is %q, want an executable %s", name, programs.path(name), path)
		}
	}
	if len(programs.stages) != len(stageFiles) {
		t.Errorf("stages = %v, want %d", programs.stages, len(stageFiles))
	}
	if again, err := findPrograms(t.Context(), options); err != nil || !reflect.DeepEqual(again, programs) {
		t.Errorf("the second call returned %v, %v, want the result of the first call", again, err)
	}
	if log, _ := os.ReadFile(calls); strings.Count(string(log), "build") != 2 {
		t.Errorf("go was called with:\n%swant two builds in all", log)
	}
}

func TestOnlyWhatKubebuilderAssetsLacksIsBuilt(t *testing.T) {
	fakeGo(t, "")
	assets := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		write(t, filepath.Join(assets, name), "#!/bin/sh\n", 0o755)
	}
	write(t, filepath.Join(assets, "kwok"), "not executable", 0o644)
	programs, err := findPrograms(t.Context(), completed(t, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"kwok"}, components...) {
		fromAssets := filepath.Dir(programs.path(name)) == assets
		if want := name == "etcd" || name == "kube-apiserver" || name == "kubectl"; fromAssets != want {
			t.Errorf("%s is %s; from KUBEBUILDER_ASSETS: %v, want %v", name, programs.path(name), fromAssets, want)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join(assets, "missing"))
	if _, err := findPrograms(t.Context(), completed(t, Options{})); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("with a KUBEBUILDER_ASSETS that does not exist: %v, want an error that says so", err)
	}
}

func TestABuildReportsItsProgress(t *testing.T) {
	fakeGo(t, "")
	var got []Progress
	options := completed(t, Options{Progress: func(p Progress) { got = append(got, p) }})
	if _, err := build(t.Context(), options, []string{"etcd", "kubectl"}); err != nil {
		t.Fatal(err)
	}
	want := []Progress{
		{Phase: "downloading the Go modules of controlplane"},
		{Phase: "downloading the Go modules of controlplane", Detail: "example.com/m v1.0.0", Done: 1},
		{Phase: "compiling controlplane", Total: 2},
		{Phase: "compiling controlplane", Detail: "example.com/m/a", Done: 1, Total: 2},
		{Phase: "compiling controlplane", Detail: "example.com/m/b", Done: 2, Total: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("progress:\n%+v\nwant\n%+v", got, want)
	}
}

func TestParallelBuildsBuildOnceAndTheSecondSaysThatItWaits(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	calls := fakeGo(t, "read line <"+gate)
	cache := t.TempDir()
	building, waiting := make(chan struct{}), make(chan struct{})
	first := completed(t, Options{CacheDir: cache, Progress: func(p Progress) {
		if p.Phase == "compiling kwok" && p.Done == 0 {
			close(building)
		}
	}})
	second := completed(t, Options{CacheDir: cache, Progress: func(p Progress) {
		if strings.HasPrefix(p.Phase, "waiting for another process") {
			close(waiting)
		}
	}})
	group := lifecycle.New(t.Context())
	group.Go("first", func(ctx context.Context) error {
		_, err := build(ctx, first, []string{kwokName})
		return err
	})
	<-building
	group.Go("second", func(ctx context.Context) error {
		_, err := build(ctx, second, []string{kwokName})
		return err
	})
	<-waiting
	if err := os.WriteFile(gate, []byte("go on\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if log, _ := os.ReadFile(calls); strings.Count(string(log), "build") != 1 {
		t.Errorf("go was called with:\n%swant one build", log)
	}
}

func TestACancelledBuildKillsItsCompilersAndLeavesNothing(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	fakeGo(t, `sleep 1000 & echo "$!" >`+pid+`; echo example.com/started >&2; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	options := completed(t, Options{Progress: func(p Progress) {
		if p.Detail == "example.com/started" {
			cancel()
		}
	}})
	if _, err := build(ctx, options, []string{kwokName}); !errors.Is(err, context.Canceled) {
		t.Fatalf("build() = %v, want context.Canceled", err)
	}
	content, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	waitGone(t, "a compiler", strings.TrimSpace(string(content)))
	left, err := filepath.Glob(filepath.Join(options.CacheDir, "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("the build left %v, %v", left, err)
	}
}

func TestABuildRemovesWhatAKilledOneLeft(t *testing.T) {
	fakeGo(t, "")
	options := completed(t, Options{})
	leftover := filepath.Join(options.CacheDir, "build-123")
	write(t, filepath.Join(leftover, "controlplane"), "half of it", 0o755)
	if _, err := build(t.Context(), options, []string{kwokName}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", leftover)
	}
}

func TestBuildErrorsSayWhatHappenedAndAWayOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "", 0o644)
	for name, test := range map[string]struct {
		cache       string
		duringBuild string
		withoutGo   bool
		want        []string
	}{
		"a compiler's error":   {duringBuild: "echo 'main.go:1: syntax error' >&2; exit 1", want: []string{"build kwok", "main.go:1: syntax error"}},
		"a full disk":          {duringBuild: "echo 'write /x: no space left on device' >&2; exit 1", want: []string{"is full", "XDG_CACHE_HOME"}},
		"a cache not to write": {cache: filepath.Join(file, "cache"), want: []string{file, "cannot be written", "XDG_CACHE_HOME"}},
		"no go command":        {withoutGo: true, want: []string{"needs Go", "PATH", "KUBEBUILDER_ASSETS", "--kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			fakeGo(t, test.duringBuild)
			if test.withoutGo {
				t.Setenv("PATH", t.TempDir())
			}
			options := completed(t, Options{CacheDir: test.cache})
			_, err := build(t.Context(), options, []string{kwokName})
			if err == nil {
				t.Fatal("build succeeded")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}
