package clustertest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// entry is a file of a tar archive.
type entry struct {
	header  tar.Header
	content []byte
}

func readTar(t *testing.T, archive io.Reader) map[string]entry {
	t.Helper()
	found := map[string]entry{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[header.Name]; twice {
			t.Errorf("the archive has %s twice", header.Name)
		}
		found[header.Name] = entry{*header, content}
	}
}

// readImage returns the files of the layer of an image, and the image's configuration.
func readImage(t *testing.T, image localcluster.Image) (layer map[string]entry, config string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := localcluster.WriteImage(archive, image); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(archive), "*")); err != nil || len(left) != 1 {
		t.Errorf("the files %q are left: %v", left, err)
	}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	outer := readTar(t, file)
	content := outer["layer.tar"].content
	config = string(outer["config.json"].content)
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); !strings.Contains(config, sum) {
		t.Errorf("the configuration %s lacks the sum %s of the layer", config, sum)
	}
	var manifest []struct{ RepoTags []string }
	if err := json.Unmarshal(outer["manifest.json"].content, &manifest); err != nil || manifest[0].RepoTags[0] != image.Name {
		t.Errorf("the manifest has %v: %v", manifest, err)
	}
	return readTar(t, bytes.NewReader(content)), config
}

func TestAnImageOfTheSystemHasFilesInPlaceOfLinks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the programs of this machine do not run on Linux")
	}
	image, err := systemImage("example.invalid/system:1", []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	layer, config := readImage(t, image)
	for _, program := range append(slices.Clone(systemPrograms), "true") {
		file := layer["bin/"+program]
		if file.header.Typeflag != tar.TypeReg || file.header.Mode != 0o755 || len(file.content) == 0 {
			t.Errorf("bin/%s has the type %q, the mode %o and %d bytes", program, file.header.Typeflag, file.header.Mode, len(file.content))
		}
	}
	if mode := layer["tmp/"].header.Mode; mode != 0o1777 {
		t.Errorf("/tmp has the mode %o", mode)
	}
	if !strings.Contains(string(layer["etc/passwd"].content), ":1000:") {
		t.Error("there is no user 1000")
	}
	if !strings.Contains(config, "PATH=/bin") {
		t.Errorf("the configuration %s has no PATH", config)
	}
	if _, err := systemImage("example.invalid/system:1", []string{"no-such-program"}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("the error of a program that does not exist is %v", err)
	}
}

func TestATreeInAnImageHasTimesAndNoTests(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"src/a/a.go", "src/a/a_test.go", "src/a/testdata/b", "src/cmd/c.go"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a/a.go", filepath.Join(folder, "src", "link.go")); err != nil {
		t.Fatal(err)
	}
	files, err := appendTree(nil, "go/src", filepath.Join(folder, "src"), 0o777)
	if err != nil {
		t.Fatal(err)
	}
	layer, _ := readImage(t, localcluster.Image{Name: "example.invalid/tree:1", Files: files})
	var names []string
	for name, file := range layer {
		names = append(names, fmt.Sprintf("%s %o %s", name, file.header.Mode, file.content))
	}
	slices.Sort(names)
	if want := []string{"go/src/ 777 ", "go/src/a/ 777 ", "go/src/a/a.go 666 src/a/a.go", "go/src/link.go 666 src/a/a.go"}; !slices.Equal(names, want) {
		t.Errorf("the image has %q, want %q", names, want)
	}
	info, err := os.Stat(filepath.Join(folder, "src/a/a.go"))
	if err != nil {
		t.Fatal(err)
	}
	if got := layer["go/src/a/a.go"].header.ModTime; !got.Equal(info.ModTime()) {
		t.Errorf("the file has the time %v, want %v", got, info.ModTime())
	}
}

func TestAnImageOfTheSystemRunsAsAnyUser(t *testing.T) {
	cluster := WithRealNode(t)
	const name = "example.invalid/any-user:1"
	LoadSystem(t, cluster, name)
	LoadSystem(t, cluster, name) // The cluster has it.
	const script = `[ "$(ls -ld /tmp | head -c 10)" = drwxrwxrwt ] && echo text >/tmp/file && mkdir /tmp/a && mv /tmp/file /tmp/a/file && rm /tmp/a/file && rmdir /tmp/a && echo works`
	namespace := NamespaceIn(t, cluster)
	runKubectl(t, cluster, namespace, "run", "one", "--image="+name, "--restart=Never",
		`--overrides={"spec":{"securityContext":{"runAsUser":1000,"runAsGroup":1000}}}`, "--command", "--", "sh", "-c", script)
	runKubectl(t, cluster, namespace, "wait", "pod/one", "--for=jsonpath={.status.containerStatuses[0].state.terminated}", "--timeout=2m")
	// Not `run --attach`: it prints what came before it twice, as it reads the log and then the stream.
	got := runKubectl(t, cluster, namespace, "logs", "one")
	if got != "works" {
		t.Errorf("a container of user 1000 prints %q", got)
	}
}

func runKubectl(t *testing.T, cluster *localcluster.Cluster, namespace string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), cluster.Kubectl(), append([]string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + namespace}, arguments...)...)
	var trouble strings.Builder
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, trouble.String())
	}
	return strings.TrimSpace(string(output))
}
