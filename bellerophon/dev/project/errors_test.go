package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a project of files, and returns its directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		file := filepath.Join(directory, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// marked returns the number of the line with the mark, or 0.
func marked(content string) int {
	for number, line := range strings.Split(content, "\n") {
		if strings.Contains(line, "# here") {
			return number + 1
		}
	}
	return 0
}

const (
	header = "schemaVersion: 2.2.2\nmetadata:\n  name: app\n"

	runtime = `components:
  - name: runtime
    container:
      image: app.example/app:1
`
)

func TestEachMistakeIsOneLineWithItsPlace(t *testing.T) {
	for name, test := range map[string]struct {
		devfile string
		want    string // behind the place
	}{
		"a tab":                 {header + "components:\n\t- name: a # here\n", "found character that cannot start any token"},
		"a wrong indentation":   {header + runtime + "  commands: [] # here\n", "did not find expected '-' indicator"},
		"a missing quote":       {header + "attributes:\n  a: \"b # here", "found unexpected end of stream"},
		"a key twice":           {header + runtime + "metadata: {} # here\n", `key "metadata" already set in map`},
		"an unknown anchor":     {header + "attributes: *a # here\n", "unknown anchor 'a' referenced"},
		"a missing bracket":     {header + "attributes:\n  a: [b\n  c: d # here\n", "did not find expected ',' or ']'"},
		"a list":                {"- a\n", "the document is not a mapping: begin it with schemaVersion: 2.2.0"},
		"nothing":               {"", "the document is not a mapping: begin it with schemaVersion: 2.2.0"},
		"no version":            {"metadata: {name: a}\n", "schemaVersion: is missing: add schemaVersion: 2.2.0"},
		"an old version":        {"metadata: {}\nschemaVersion: 2.1.0 # here\n", "schemaVersion: 2.1.0 is too old: convert the devfile to 2.2.0 or newer"},
		"a number as version":   {"schemaVersion: 2.2 # here\n", "schemaVersion: 2.2 is not of the form 2.2.0"},
		"a version to come":     {"schemaVersion: 2.9.0 # here\n", "schemaVersion: 2.9.0 is not known: use a version from 2.2.0 to 2.3.0"},
		"the version of a kind": {"schemaVersion: v1alpha2 # here\n", "schemaVersion: v1alpha2 is not of the form 2.2.0"},
		"an unknown field": {header + runtime + "      imagePullPolicy: Always # here\n",
			"components.0.container.imagePullPolicy: the schema has no such field; check its spelling and its indentation"},
		"an unknown section": {header + runtime + "Parent: {} # here\n",
			"Parent: the schema has no such field; check its spelling and its indentation"},
		"a missing field": {header + "components:\n  - name: runtime\n    container: {} # here\n", "components.0.container: image is required"},
		"a wrong type":    {header + runtime + "      memoryLimit: 512 # here\n", "components.0.container.memoryLimit: the type is integer instead of string; put the value in quotes"},
		"two kinds":       {header + "components:\n  - name: a # here\n    volume: {}\n    container: {image: b}\n", "components.0: exactly one of the fields that exclude each other is allowed"},
		"an invalid name": {header + "components:\n  - name: Up # here\n    container: {image: b}\n", "components.0.name: does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"},
		"a fractional port": {header + runtime + "      endpoints:\n        - name: http\n          targetPort: 80.5 # here\n",
			"components.0.container.endpoints.0.targetPort: the type is number instead of integer"},
		"no container": {header + "components: # here\n  - name: a\n    volume: {}\n", "no component is a container: add one for the commands to run in"},
		"a dedicated pod": {header + runtime + "      dedicatedPod: true # here\n",
			`component "runtime": dedicatedPod is not supported: remove it, so that the container runs in the application's pod`},
		"a relative source mapping": {header + runtime + "      sourceMapping: src # here\n", `component "runtime": sourceMapping src is not an absolute path`},
		"no port": {header + runtime + "      endpoints:\n        - name: http\n          targetPort: 70000 # here\n",
			`component "runtime": 70000 is not a port: use 1 to 65535`},
		"an invalid quantity": {header + runtime + "      memoryLimit: much # here\n",
			"error parsing memoryLimit requirement for component runtime: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		"an invalid size": {header + runtime + "  - name: data\n    volume:\n      size: much # here\n",
			`the volume "data" is invalid - size much for volume component is invalid, quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'. Example - 2Gi, 1024Mi`},
		"a reserved variable": {header + runtime + "      env:\n        - name: PROJECT_SOURCE # here\n          value: /\n",
			"env variable PROJECT_SOURCE is reserved and cannot be customized in component runtime"},
		"a component twice": {header + runtime + "  - name: runtime # here\n    container: {image: b}\n", "duplicate key: runtime"},
		"an endpoint twice": {header + runtime + "      endpoints:\n        - {name: http, targetPort: 1}\n        - {name: http, targetPort: 2} # here\n",
			"devfile contains multiple endpoint entries with same name: http"},
		"a missing volume": {header + runtime + "      volumeMounts:\n        - name: data # here\n",
			`component "runtime": it mounts the volume "data", and no volume component has this name: add one`},
		"a missing component": {header + runtime + "commands:\n  - id: run\n    exec:\n      component: app # here\n      commandLine: a\n",
			`command "run": no container component has the name "app"; the containers are: runtime`},
		"a missing component to apply": {header + runtime + "commands:\n  - id: start\n    apply:\n      component: app # here\n",
			`command "start": no component has the name "app"`},
		"an image to apply": {header + runtime + "  - name: image\n    image: {imageName: a, dockerfile: {uri: b}}\ncommands:\n  - id: build\n    apply:\n      component: image # here\n      group: {kind: build}\n",
			`command "build": it applies "image", and bellerophon dev does not apply components of the kind image`},
		"a missing step": {header + runtime + "commands:\n  - id: all\n    composite:\n      commands:\n        - one # here\n", `command "all": no command has the ID "one"`},
		"a cycle": {header + runtime + "commands:\n  - id: a\n    composite: {commands: [b]} # here\n  - id: b\n    composite: {commands: [A]}\n",
			`command "a": it runs itself: a → b → a; remove one of the references`},
		"two defaults": {header + runtime + "commands:\n  - {id: a, exec: {component: runtime, commandLine: a, group: {kind: run, isDefault: true}}}\n" +
			"  - {id: b, exec: {component: runtime, commandLine: a, group: {kind: run, isDefault: true}}} # here\n",
			`command "b": the group run has several default commands: a, b; set isDefault for one of them`},
		"no default": {header + runtime + "commands:\n  - {id: a, exec: {component: runtime, commandLine: a, group: {kind: debug}}} # here\n" +
			"  - {id: b, exec: {component: runtime, commandLine: a, group: {kind: debug, isDefault: false}}}\n",
			`command "a": the group debug has no default command among a, b; set isDefault for one of them`},
		"a custom command": {header + runtime + "commands:\n  - id: own\n    custom: {commandClass: a, embeddedResource: {}} # here\n",
			"commands.0.custom: the schema has no such field; check its spelling and its indentation"},
		"an event without a command": {header + runtime + "events:\n  postStart:\n    - migrate # here\n",
			"postStart type events are invalid: migrate does not map to a valid devfile command"},
		"a clone path that leads out": {header + runtime + "projects:\n  - name: a\n    clonePath: ../b # here\n    git: {remotes: {origin: c}}\n",
			`project "a": clonePath ../b leads out of the projects' root`},
		"a manifest that is no YAML": {header + runtime + "  - name: config\n    kubernetes: # here\n      inlined: 'a: b: c'\n",
			`component "config": decode document 1 of the manifest: error converting YAML to JSON: yaml: mapping values are not allowed in this context`},
		"a manifest without a kind": {header + runtime + "  - name: config\n    kubernetes: # here\n      inlined: '{\"apiVersion\": \"v1\"}'\n",
			`component "config": document 1 of the manifest has no apiVersion or no kind`},
		"an empty manifest": {header + runtime + "  - name: config\n    kubernetes: # here\n      inlined: '# nothing'\n", `component "config": the manifest has no object`},
		"an unclear parent": {header + runtime + "parent: # here\n  version: 1.0.0\n", "parent.uri: the uri of a devfile in the project is missing"},
		"a parent of a registry": {header + runtime + "parent:\n  id: go # here\n",
			"parent.id: bellerophon dev does not get devfiles from a registry or cluster; copy the devfile into the project, and name it by uri"},
		"a parent of a cluster": {header + runtime + "parent:\n  kubernetes: {name: a} # here\n",
			"parent.kubernetes: bellerophon dev does not get devfiles from a registry or cluster; copy the devfile into the project, and name it by uri"},
		"a parent that leads out": {header + runtime + "parent:\n  uri: ../devfile.yaml # here\n", "parent.uri: ../devfile.yaml leads out of the project; copy the file into the project"},
		"an absolute parent":      {header + runtime + "parent:\n  uri: /etc/passwd # here\n", `parent.uri: "/etc/passwd" is not a relative path with slashes`},
		"a missing parent":        {header + runtime + "parent:\n  uri: a/devfile.yaml # here\n", "parent.uri: read a/devfile.yaml: no such file or directory"},
		"a parent that is itself": {header + runtime + "parent:\n  uri: ./devfile.yaml # here\n", "parent.uri: devfile.yaml includes itself: devfile.yaml → devfile.yaml; remove one of the references"},
		"a parent by merge key": {header + runtime + "attributes:\n  a: &a {uri: https://registry.example}\nparent: # here\n  <<: *a\n",
			"parent.uri: bellerophon dev does not download https://registry.example; copy the file into the project, and name it by its relative path"},
		"a manifest that leads out": {header + runtime + "  - name: a\n    kubernetes:\n      uri: ../a.yaml # here\n",
			"components.1.kubernetes.uri: ../a.yaml leads out of the project; copy the file into the project"},
		"a variable in a variable": {header + runtime + "variables:\n  a: '{{a}}{{a}}' # here\n", `variable "a": the value may not use a variable: write the text itself`},
		"a directory as manifest":  {header + runtime + "  - name: a\n    kubernetes:\n      uri: . # here\n", "components.1.kubernetes.uri: .: is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(write(t, map[string]string{"devfile.yaml": test.devfile}))
			if err == nil {
				t.Fatal("the devfile was read")
			}
			want := "devfile.yaml: " + test.want
			if line := marked(test.devfile); line != 0 {
				want = fmt.Sprintf("devfile.yaml:%d: %s", line, test.want)
			}
			if err.Error() != want {
				t.Errorf("got\n%v\nwant\n%s", err, want)
			}
		})
	}
}

func TestAllMistakesAreReportedInTheOrderOfTheirLines(t *testing.T) {
	devfile := header + "components:\n  - name: a\n    container: {image: b, dedicatedPod: true}\n" +
		"commands:\n  - id: run\n    exec: {component: c, commandLine: d}\n  - id: all\n    composite: {commands: [e, f]}\n"
	for range 20 {
		_, err := Read(write(t, map[string]string{"devfile.yaml": devfile}))
		var places []string
		for line := range strings.Lines(fmt.Sprint(err)) {
			places = append(places, strings.Join(strings.SplitN(line, " ", 3)[:2], " "))
		}
		if got, want := strings.Join(places, ", "), `devfile.yaml:6: component, devfile.yaml:9: command, devfile.yaml:11: command, devfile.yaml:11: command`; got != want {
			t.Fatalf("got %s, want %s: %v", got, want, err)
		}
	}
}

func TestAMistakeInAParentHasThePlaceInTheParent(t *testing.T) {
	child := header + "parent:\n  uri: stack/devfile.yaml\n"
	for name, test := range map[string]struct{ child, parent, want string }{
		"its schema":  {child, header + "components:\n  - name: a\n    container: {}\n", "stack/devfile.yaml:6: components.0.container: image is required"},
		"its syntax":  {child, "a: b: c\n", "stack/devfile.yaml:1: mapping values are not allowed in this context"},
		"its meaning": {child, header + runtime + "      dedicatedPod: true\n", `stack/devfile.yaml:8: component "runtime": dedicatedPod is not supported: remove it, so that the container runs in the application's pod`},
		"its version": {child, "schemaVersion: 2.3.0\n" + runtime, "devfile.yaml:1: schemaVersion: 2.2.2 is older than 2.3.0 in stack/devfile.yaml: raise it"},
		"its parent": {child, header + "parent:\n  uri: ../devfile.yaml\n",
			"stack/devfile.yaml:5: parent.uri: devfile.yaml includes itself: devfile.yaml → stack/devfile.yaml → devfile.yaml; remove one of the references"},
		"its manifest": {child, header + runtime + "  - name: a\n    kubernetes: {uri: ../../a.yaml}\n",
			"stack/devfile.yaml:9: components.1.kubernetes.uri: ../../a.yaml leads out of the project; copy the file into the project"},
		"a name of both": {child + runtime, header + runtime,
			"devfile.yaml:7: some Components are already defined in parent: runtime. If you want to override them, you should do it in the parent scope."},
		"an override of nothing": {child + "  components:\n    - name: other\n      container: {image: a}\n", header + runtime,
			"devfile.yaml:7: some Components do not override any existing element: other. They should be defined in the main body, as new elements, not in the overriding section"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(write(t, map[string]string{"devfile.yaml": test.child, "stack/devfile.yaml": test.parent}))
			if err == nil || err.Error() != test.want {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

func TestTooManyDevfilesInARowAreRefused(t *testing.T) {
	files := map[string]string{"devfile.yaml": header + runtime + "parent: {uri: 0.yaml}\n"}
	for i := range maxChain + 1 {
		files[fmt.Sprintf("%d.yaml", i)] = header + fmt.Sprintf("parent: {uri: %d.yaml}\n", i+1)
	}
	_, err := Read(write(t, files))
	if want := "8.yaml:4: parent.uri: more than 10 devfiles follow each other"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestADirectoryWithoutADevfileSaysWhichNamesWereTried(t *testing.T) {
	directory := t.TempDir()
	_, err := Read(directory)
	want := "no devfile in " + directory + ": looked for devfile.yaml, .devfile.yaml, devfile.yml, .devfile.yml; add one, or name the directory of the project"
	if !errors.Is(err, ErrNoDevfile) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Read(filepath.Join(directory, "missing"))
	if !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrNoDevfile) {
		t.Errorf("a missing directory gives %v", err)
	}
}

func TestTheFirstNameOfADevfileIsTaken(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{".devfile.yml", "devfile.yml", ".devfile.yaml", "devfile.yaml"} {
		files[name] = "schemaVersion: 2.2.0\nmetadata:\n  name: " + strings.Trim(strings.ReplaceAll(name, ".", "-"), "-") + "\n" + runtime
		flattened, err := Read(write(t, files))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Parse(flattened)
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Trim(strings.ReplaceAll(name, ".", "-"), "-"); plan.Name != want {
			t.Errorf("%s: read %s", name, plan.Name)
		}
	}
}

func TestADevfileThatIsTooLargeWithItsManifestsIsRefused(t *testing.T) {
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '" + strings.Repeat("b", maxDocument/2) + "'}\n"
	_, err := Read(write(t, map[string]string{
		"devfile.yaml": header + runtime + "  - name: a\n    kubernetes: {uri: a.yaml}\n  - name: b\n    kubernetes: {uri: a.yaml}\n",
		"a.yaml":       object,
	}))
	if err == nil || !strings.Contains(err.Error(), "with its parents and manifests, and at most 1048576 are allowed") {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	_, err := Read(write(t, map[string]string{"devfile.yaml": strings.Repeat("#", maxDocument+1)}))
	if want := "devfile.yaml: has 1048577 bytes, and at most 1048576 are allowed"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
