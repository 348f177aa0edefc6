package project

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// planOf returns the plan of a sample, after a check that a second reading gives the same.
func planOf(t *testing.T, sample string) *Plan {
	t.Helper()
	read := func() ([]byte, *Plan) {
		flattened, err := Read(filepath.Join("testdata", sample))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Parse(flattened)
		if err != nil {
			t.Fatal(err)
		}
		return flattened, plan
	}
	document, plan := read()
	for range 5 {
		again, same := read()
		if !bytes.Equal(document, again) || !reflect.DeepEqual(plan, same) {
			t.Fatalf("%s: two readings differ:\n%s\n%s", sample, document, again)
		}
	}
	return plan
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
	}
}

// bare is a container with the defaults.
func bare(name, image string) Container {
	return Container{Name: name, Image: image, MountSources: true, SourceMapping: "/projects", ProjectSource: "/projects"}
}

func exec(container, line string) *Exec { return &Exec{Container: container, Line: line} }

func TestAGoProjectBecomesAPlan(t *testing.T) {
	plan := planOf(t, "go")
	container := bare("runtime", "golang.example/go:1.26")
	container.Args = []string{"tail", "-f", "/dev/null"}
	container.Limits, container.Requests = Resources{Memory: "1Gi", CPU: "1"}, Resources{Memory: "512Mi", CPU: "250m"}
	container.Env = []Variable{{"ZONE", "b"}, {"GOCACHE", "/cache/go"}}
	container.Mounts = []Mount{{"cache", "/cache"}, {"scratch", "/scratch"}}
	container.DeploymentAnnotations = map[string]string{"team": "greeters"}
	container.ServiceAnnotations = map[string]string{"scrape": "true"}
	container.Endpoints = []Endpoint{
		{Name: "http", TargetPort: 8080, Exposure: "public", Protocol: "http"},
		{Name: "debug", TargetPort: 5858, Exposure: "none", Protocol: "tcp"},
	}
	equal(t, "the plan", plan, &Plan{
		Name:       "greeter",
		Containers: []Container{container},
		Volumes:    []Volume{{Name: "cache", Size: "2Gi"}, {Name: "scratch", Ephemeral: true}},
		Build: &Command{Name: "build", Exec: &Exec{
			Container: "runtime", Line: "go build -o app .", WorkingDir: "${PROJECT_SOURCE}", Env: []Variable{{"CGO_ENABLED", "0"}},
		}},
		Run:   &Command{Name: "run", Exec: &Exec{Container: "runtime", Line: "./app", WorkingDir: "${PROJECT_SOURCE}"}},
		Debug: &Command{Name: "debug", Exec: exec("runtime", "dlv --listen=:5858 exec ./app")},
	})
}

func TestANodeProjectBecomesAPlan(t *testing.T) {
	plan := planOf(t, "node")
	equal(t, "the plan", plan, &Plan{
		Name: "shop",
		Containers: []Container{
			{
				Name: "node", Image: "node.example/node:24", MountSources: true, SourceMapping: "/src", ProjectSource: "/src/shop-front",
				Endpoints: []Endpoint{{Name: "web", TargetPort: 3000, Exposure: "public", Secure: true, Protocol: "https", Path: "/shop"}},
			},
			{
				Name: "tools", Image: "tools.example/tools:1", Command: []string{"sleep"}, Args: []string{"infinity"},
				SourceMapping: "/projects", ProjectSource: "/projects/shop-front",
			},
		},
		Run:      &Command{Name: "run", Exec: &Exec{Container: "node", Line: "npm run dev", HotReload: true}},
		Warnings: []string{"the commands of the event postStart are not run: run"},
	})
}

func TestACompositeCommandBecomesATree(t *testing.T) {
	plan := planOf(t, "parallel")
	equal(t, "the build", plan.Build, &Command{Name: "build", Steps: []Command{
		{Name: "generate", Exec: exec("back", "make generate")},
		{Name: "both", Parallel: true, Steps: []Command{
			{Name: "back", Exec: exec("back", "make back")},
			{Name: "front", Exec: exec("front", "npm run build")},
		}},
	}})
	if plan.Run != nil || plan.Debug != nil {
		t.Errorf("a devfile without run and debug has %v and %v", plan.Run, plan.Debug)
	}
}

func TestParentsInTheProjectAreMerged(t *testing.T) {
	plan := planOf(t, "parent")
	runtime := bare("runtime", "golang.example/go:1.27")
	runtime.Limits.Memory = "1Gi"
	equal(t, "the plan", plan, &Plan{
		Name:       "child",
		Containers: []Container{runtime, bare("extra", "extra.example/extra:1")},
		Volumes:    []Volume{{Name: "data", Size: "1Gi"}},
		Manifests: []Manifest{{
			Component: "settings", Default: true,
			Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  port: \"web\"\n",
		}},
		Run: &Command{Name: "run", Exec: exec("runtime", "./child")},
	})
}

func TestManifestsAreInlinedAndAppliedAsTheDevfileSays(t *testing.T) {
	plan := planOf(t, "kubernetes")
	applied := map[string]bool{}
	for _, manifest := range plan.Manifests {
		applied[manifest.Component] = manifest.Default
	}
	equal(t, "what is applied at the start", applied, map[string]bool{"database": false, "binding": true, "migration": true, "never": false})
	if content := plan.Manifests[0].Content; !strings.HasPrefix(content, "# Two objects.\n---\n") || strings.Count(content, "kind:") != 2 {
		t.Errorf("the manifest of a file is %q", content)
	}
	if content := plan.Manifests[1].Content; !strings.Contains(content, "kind: ServiceBinding\n") {
		t.Errorf("the inlined manifest is %q", content)
	}
	equal(t, "the run command", plan.Run, &Command{Name: "start", Steps: []Command{
		{Name: "apply-database", Apply: "database"},
		{Name: "run", Exec: exec("app", "./app")},
	}})
}

func TestVariablesHaveTheirValues(t *testing.T) {
	plan := planOf(t, "variables")
	container := plan.Containers[0]
	equal(t, "the image", container.Image, "golang.example/go:1.26")
	equal(t, "the limits", container.Limits, Resources{Memory: "512Mi"})
	equal(t, "the source mapping", container.SourceMapping, "/sources")
	equal(t, "the command line", plan.Run.Exec.Line, "echo 1.26 {{ unknown }} {{ other }}")
	equal(t, "the directory", container.Directory(plan.Run.Exec.WorkingDir), "/sources/cmd")
	equal(t, "the warnings", plan.Warnings, []string{
		`component "runtime" uses variables that the devfile does not define: tags`,
		`command "run" uses variables that the devfile does not define: other, unknown`,
	})
}

func TestADevfileOfARegistryIsUsedWithoutItsImages(t *testing.T) {
	plan := planOf(t, "registry")
	equal(t, "the run command", plan.Run, &Command{Name: "run", Exec: exec("runtime", "make run")})
	equal(t, "the manifests", plan.Manifests, []Manifest{{Component: "deployment", Content: "apiVersion: v1\nkind: ConfigMap\n"}})
	equal(t, "the warnings", plan.Warnings, []string{
		`component "image" is ignored: bellerophon dev does not support components of the kind image`,
		`component "route" is ignored: bellerophon dev does not support components of the kind openshift`,
	})
}

func TestAWorkingDirectoryIsAbsolute(t *testing.T) {
	container := Container{MountSources: true, SourceMapping: "/src", ProjectSource: "/src/app"}
	for workingDir, want := range map[string]string{
		"":                            "/src/app",
		".":                           "/src/app",
		"cmd":                         "/src/app/cmd",
		"/tmp/":                       "/tmp",
		"$PROJECT_SOURCE":             "/src/app",
		"${PROJECT_SOURCE}/cmd":       "/src/app/cmd",
		"$PROJECTS_ROOT/other":        "/src/other",
		"${PROJECTS_ROOT}/../a":       "/a",
		"${HOME}/a":                   "/src/app/${HOME}/a",
		"/x/${PROJECT_SOURCE}/../end": "/x/src/end",
	} {
		if got := container.Directory(workingDir); got != want {
			t.Errorf("%q is %q, want %q", workingDir, got, want)
		}
	}
	if got := (Container{ProjectSource: "/src/app"}).Directory(""); got != "/" {
		t.Errorf("without sources, a command runs in %q", got)
	}
}

func TestADevfileThatIsNotFlattenedIsNotParsed(t *testing.T) {
	for devfile, want := range map[string]string{
		header + runtime + "parent: {uri: a}\n":                      "parent: ",
		header + runtime + "  - name: a\n    kubernetes: {uri: a}\n": `component "a": `,
	} {
		_, err := Parse([]byte(devfile))
		if want := "flattened devfile: " + want + notFlattened; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestACommandThatGrowsExponentiallyIsRefused(t *testing.T) {
	devfile := strings.Builder{}
	devfile.WriteString(header + runtime + "commands:\n  - id: c0\n    exec: {component: runtime, commandLine: a}\n")
	for i := range 30 {
		fmt.Fprintf(&devfile, "  - id: c%d\n    composite: {commands: [c%d, c%d]}\n", i+1, i, i)
	}
	_, err := Parse([]byte(devfile.String()))
	if want := `command "c30": it runs more than 1000 commands`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, sample := range []string{"go", "node", "parallel", "parent", "kubernetes", "variables", "registry"} {
		flattened, err := Read(filepath.Join("testdata", sample))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(flattened)
	}
	f.Add([]byte("schemaVersion: 2.2\n"))
	f.Fuzz(func(t *testing.T, document []byte) {
		plan, err := Parse(document)
		if (plan == nil) != (err != nil) {
			t.Fatalf("the plan is %v, and the error %v", plan, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "flattened devfile: ") {
					t.Errorf("a line of the error is %q", line)
				}
			}
			return
		}
		again, err := Parse(document)
		if err != nil || !reflect.DeepEqual(plan, again) {
			t.Errorf("two plans differ: %+v, %+v, %v", plan, again, err)
		}
	})
}
