package project

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestNothingIsDownloaded(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for name, test := range map[string]struct{ devfile, want string }{
		"a parent":               {runtime + "parent: {uri: URL/devfile.yaml}\n", "parent.uri: "},
		"a parent without http":  {runtime + "parent: {uri: //HOST/devfile.yaml}\n", "parent.uri: "},
		"a parent of a registry": {runtime + "parent: {id: go, registryUrl: URL}\n", "parent.id: "},
		"a registry alone":       {runtime + "parent: {registryUrl: URL}\n", "parent.registryUrl: "},
		"both":                   {runtime + "parent: {uri: devfile.yaml, id: go, registryUrl: URL}\n", "parent.id: "},
		"a parent's manifest": {runtime + "parent:\n  uri: base.yaml\n  components:\n    - name: a\n      kubernetes: {uri: URL/a.yaml}\n",
			"parent.components.0.kubernetes.uri: "},
		"a parent's parent":                {runtime + "parent: {uri: remote.yaml}\n", "parent.uri: "},
		"a plugin":                         {runtime + "  - name: a\n    plugin: {uri: URL/devfile.yaml}\n", "components.1.plugin: "},
		"a plugin of a registry":           {runtime + "  - name: a\n    plugin: {id: a, registryUrl: URL}\n", "components.1.plugin: "},
		"a manifest":                       {runtime + "  - name: a\n    kubernetes: {uri: URL/a.yaml}\n", "components.1.kubernetes.uri: "},
		"a manifest for OpenShift":         {runtime + "  - name: a\n    openshift: {uri: URL/a.yaml}\n", "components.1.openshift.uri: "},
		"an image":                         {runtime + "  - name: a\n    image: {imageName: a, dockerfile: {uri: URL/Dockerfile}}\n", ""},
		"a project":                        {runtime + "projects:\n  - name: a\n    zip: {location: URL/a.zip}\n", ""},
		"a starter project":                {runtime + "starterProjects:\n  - name: a\n    git: {remotes: {origin: URL/a.git}}\n", ""},
		"a reference as in a JSON schema":  {runtime + "attributes: {$ref: URL/a.json, $schema: URL/b.json}\n", ""},
		"a name of a field in other case":  {runtime + "Parent: {Uri: URL/devfile.yaml}\n", "Parent: "},
		"a name of a field in other case2": {runtime + "parent: {URI: URL/devfile.yaml}\n", "parent.uri: "},
	} {
		t.Run(name, func(t *testing.T) {
			devfile := strings.NewReplacer("URL", server.URL, "HOST", server.Listener.Addr().String()).Replace(header + test.devfile)
			flattened, err := Read(write(t, map[string]string{
				"devfile.yaml": devfile,
				"base.yaml":    header + "components:\n  - name: a\n    kubernetes: {inlined: a}\n",
				"remote.yaml":  header + "parent: {uri: " + server.URL + "/devfile.yaml}\n",
			}))
			if test.want == "" {
				if err == nil {
					_, err = Parse(flattened)
				}
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), ": "+test.want) {
				t.Errorf("got %v, want an error of %s", err, test.want)
			}
		})
	}
	if got := connections.Load(); got != 0 {
		t.Errorf("%d connections were opened", got)
	}
	// The counter works.
	if response, err := server.Client().Get(server.URL); err != nil || connections.Load() != 1 {
		t.Errorf("a request is not counted: %v", err)
	} else if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestThePartOfTheLibraryThatDownloadsIsNotLinked(t *testing.T) {
	output, err := osexec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(output))
	const library = "github.com/devfile/library/v2/pkg/devfile/parser/data/v2"
	found := false
	for _, name := range packages {
		switch name {
		case library:
			found = true
		case "github.com/devfile/library/v2/pkg/devfile/parser", "github.com/devfile/library/v2/pkg/util", "k8s.io/klog":
			t.Errorf("the package needs %s", name)
		}
	}
	if !found {
		t.Errorf("%s is not among %d packages", library, len(packages))
	}
}

func TestALinkOutOfTheProjectIsNotFollowed(t *testing.T) {
	outside := write(t, map[string]string{"secret.yaml": header + runtime})
	for name, test := range map[string]struct{ devfile, link, want string }{
		"the devfile":             {"", "devfile.yaml", "devfile.yaml: devfile.yaml leads"},
		"a parent":                {header + runtime + "parent: {uri: link.yaml}\n", "link.yaml", "devfile.yaml:8: parent.uri: link.yaml leads"},
		"a manifest":              {header + runtime + "  - name: a\n    kubernetes: {uri: link.yaml}\n", "link.yaml", "devfile.yaml:9: components.1.kubernetes.uri: link.yaml leads"},
		"a directory of a parent": {header + runtime + "parent: {uri: link/secret.yaml}\n", "link", "devfile.yaml:8: parent.uri: link/secret.yaml leads"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := write(t, map[string]string{})
			if test.devfile != "" {
				directory = write(t, map[string]string{"devfile.yaml": test.devfile})
			}
			target := outside
			if strings.HasSuffix(test.link, ".yaml") {
				target = filepath.Join(outside, "secret.yaml")
			}
			if err := os.Symlink(target, filepath.Join(directory, test.link)); err != nil {
				t.Fatal(err)
			}
			_, err := Read(directory)
			if want := test.want + " out of the project, perhaps by a symbolic link; copy the file into the project"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestALinkInTheProjectIsFollowed(t *testing.T) {
	directory := write(t, map[string]string{"config/devfile.yaml": header + runtime})
	if err := os.Symlink("config/devfile.yaml", filepath.Join(directory, "devfile.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(directory); err != nil {
		t.Error(err)
	}
}

func TestReadChangesNothingInTheProject(t *testing.T) {
	files := map[string]string{
		"devfile.yaml":       header + "parent: {uri: stack/devfile.yaml}\n",
		"stack/devfile.yaml": header + runtime + "  - name: a\n    kubernetes: {uri: a.yaml}\n",
		"stack/a.yaml":       "apiVersion: v1\nkind: ConfigMap\n",
		"stack/main.go":      "package main\n",
	}
	directory := write(t, files)
	if _, err := Read(directory); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	if err := filepath.WalkDir(directory, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		relative, _ := filepath.Rel(directory, name)
		found[filepath.ToSlash(relative)] = string(content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the project", found, files)
}
