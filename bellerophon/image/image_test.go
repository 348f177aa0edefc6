package image_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/google/go-containerregistry/pkg/name"
	containerregistry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// compiled holds the operator, which the tests share.
var compiled struct {
	sync.Once
	content []byte
	err     error
}

// operator returns the path of the operator, built for an image.
func operator(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bellerophon-operator")
	compiled.Do(func() {
		if compiled.err = image.Operator.Compile(context.Background(), path); compiled.err == nil {
			compiled.content, compiled.err = os.ReadFile(path)
		}
	})
	if compiled.err != nil {
		t.Fatal(compiled.err)
	}
	if err := os.WriteFile(path, compiled.content, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheSameSourceMakesTheSameBytes(t *testing.T) {
	first, second := operator(t), filepath.Join(t.TempDir(), "again")
	t.Chdir(filepath.Join("..", "simple")) // Another folder of the checkout.
	if err := image.Operator.Compile(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func(program, file string) error{
		os.Link,
		func(program, file string) error {
			_, err := image.Operator.Write(program, image.Operator.Image, file)
			return err
		},
		image.WriteSBOM,
	} {
		var written [2][]byte
		for i, program := range []string{first, second} {
			file := filepath.Join(t.TempDir(), "out")
			if err := write(program, file); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			written[i] = content
		}
		if len(written[0]) == 0 || !bytes.Equal(written[0], written[1]) {
			t.Errorf("two builds of %d and %d bytes differ", len(written[0]), len(written[1]))
		}
	}
}

// archived returns an image of an archive, and its configuration.
func archived(t *testing.T, archive, called string) (containerregistry.Image, *containerregistry.ConfigFile) {
	t.Helper()
	tag, err := name.NewTag(called)
	if err != nil {
		t.Fatal(err)
	}
	made, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return made, config
}

func TestTheImageHasTheOperatorAloneAndAUserWithoutRights(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "image.tar")
	id, err := image.Operator.Write(operator(t), image.Operator.Image, archive)
	if err != nil {
		t.Fatal(err)
	}
	made, config := archived(t, archive, image.Operator.Image)
	if config.Config.User != "65532:65532" || strings.Join(config.Config.Entrypoint, " ") != "/bellerophon-operator" || !config.Created.IsZero() {
		t.Errorf("the user is %q, the program %q, and it was created at %v", config.Config.User, config.Config.Entrypoint, config.Created)
	}
	if digest, err := made.ConfigName(); err != nil || digest.String() != id {
		t.Errorf("Write returned %s, and the archive has %s, %v", id, digest, err)
	}
	files := mutate.Extract(made)
	defer files.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(files); err != nil {
		t.Fatal(err)
	}
	if names := tarNames(t, &content); strings.Join(names, " ") != "bellerophon-operator" {
		t.Errorf("the image has %q", names)
	}
}

func TestTheBillListsTheModulesOfTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bill.json")
	if err := image.WriteSBOM(operator(t), file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bill cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(content), cyclonedx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	if len(bill.Metadata.Component.BOMRef) == 0 || len(*(*bill.Dependencies)[0].Dependencies) != len(*bill.Components) {
		t.Errorf("the program is %+v, with %d dependencies of %d", bill.Metadata.Component, len(*bill.Dependencies), len(*bill.Components))
	}
	for _, want := range []string{"pkg:golang/std@", "pkg:golang/k8s.io/client-go@v", "pkg:golang/github.com/prometheus/client_golang@v"} {
		if !bytes.Contains(content, []byte(want)) {
			t.Errorf("the bill has no %s", want)
		}
	}
	// What only the command or the tests need is not in the operator.
	for _, unwanted := range []string{"helm.sh/helm", "go-containerregistry"} {
		if bytes.Contains(content, []byte(unwanted)) {
			t.Errorf("the bill has %s", unwanted)
		}
	}
}

func TestNoImageIsMadeOfWhatCannotRun(t *testing.T) {
	folder := t.TempDir()
	script := filepath.Join(folder, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ program, name, want string }{
		{script, image.Operator.Image, "is not a program for Linux"},
		{"/bin/sh", image.Operator.Image, "needs a dynamic linker"},
		{script, "Not A Name", "name of the image"},
	} {
		archive := filepath.Join(folder, "image.tar")
		if _, err := image.Operator.Write(test.program, test.name, archive); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Write(%s, %s) = %v, want %q", test.program, test.name, err, test.want)
		}
		if _, err := os.Stat(archive); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Write(%s, %s) left a file: %v", test.program, test.name, err)
		}
	}
}
