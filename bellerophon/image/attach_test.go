package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const billType = "application/vnd.cyclonedx+json"

// written writes an image, and returns the index of its archive, the path of the archive and the bill that
// is written beside it.
func written(t *testing.T) (index v1.ImageIndex, archive string, bill []byte) {
	t.Helper()
	folder, program := t.TempDir(), operator(t)
	archive = filepath.Join(folder, "image.tar")
	if _, err := image.Operator.Write(program, image.Operator.Image, archive); err != nil {
		t.Fatal(err)
	}
	if err := image.WriteSBOM(program, filepath.Join(folder, "bill.json")); err != nil {
		t.Fatal(err)
	}
	bill, err := os.ReadFile(filepath.Join(folder, "bill.json"))
	if err != nil {
		t.Fatal(err)
	}
	unpack(t, archive, filepath.Join(folder, "layout"))
	index, err = layout.ImageIndexFromPath(filepath.Join(folder, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	return index, archive, bill
}

// unpack unpacks an archive whose files have no times into a folder.
func unpack(t *testing.T, archive, folder string) {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 {
			t.Errorf("%s has the time %v", header.Name, header.ModTime)
		}
		path := filepath.Join(folder, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(reader)
		if err == nil {
			err = os.WriteFile(path, file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheBillIsAttachedToTheImage(t *testing.T) {
	index, archive, bill := written(t)
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 2 {
		t.Fatalf("the index has %+v, %v; want the image and its bill", list, err)
	}
	of, attached := list.Manifests[0], list.Manifests[1]
	if full := of.Annotations["io.containerd.image.name"]; full != "docker.io/"+image.Operator.Image || of.Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Errorf("the image has the annotations %v", of.Annotations)
	}
	if of.Platform == nil || of.Platform.OS != "linux" {
		t.Errorf("the image is described by %+v", of)
	}
	if attached.ArtifactType != billType || len(attached.Annotations) != 0 {
		t.Errorf("the bill is described by %+v; want no name, so that nobody runs it", attached)
	}
	artifact, err := index.Image(attached.Digest)
	if err != nil {
		t.Fatal(err)
	}
	isBillOf(t, artifact, of, bill)

	// A program that knows only the list of `docker save` finds the same image.
	tag, err := name.NewTag(image.Operator.Image)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := index.Image(of.Digest)
	if err != nil {
		t.Fatal(err)
	}
	first, err := saved.ConfigName()
	second, problem := stored.ConfigName()
	if err != nil || problem != nil || first != second {
		t.Errorf("the list has the image %v, %v, and the index %v, %v", first, err, second, problem)
	}
}

// A registry finds the bill by the digest of the image.
func TestARegistryListsTheBillAsAReferrerOfTheImage(t *testing.T) {
	index, _, bill := written(t)
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range list.Manifests {
		push(t, server, index, each)
	}
	of := list.Manifests[0]
	content := send(t, server, http.MethodGet, "/referrers/"+of.Digest.String(), "", nil)
	found, err := v1.ParseIndexManifest(bytes.NewReader(content))
	if err != nil || len(found.Manifests) != 1 {
		t.Fatalf("the registry lists %s, %v; want the bill", content, err)
	}
	content = send(t, server, http.MethodGet, "/manifests/"+found.Manifests[0].Digest.String(), "", nil)
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil || len(manifest.Layers) != 1 || manifest.Subject.Digest != of.Digest {
		t.Fatalf("the registry has %s, %v; want the bill of %v", content, err, of.Digest)
	}
	if content := send(t, server, http.MethodGet, "/blobs/"+manifest.Layers[0].Digest.String(), "", nil); !bytes.Equal(content, bill) {
		t.Errorf("the registry has %d bytes, want the %d bytes of the bill", len(content), len(bill))
	}
}

// push sends an image and its files to a registry.
func push(t *testing.T, server *httptest.Server, index v1.ImageIndex, each v1.Descriptor) {
	t.Helper()
	made, err := index.Image(each.Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := made.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	files := [][]byte{config}
	layers, err := made.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		reader, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		_ = reader.Close()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, content)
	}
	for _, content := range files {
		digest, _, err := v1.SHA256(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		send(t, server, http.MethodPost, "/blobs/uploads/?digest="+digest.String(), "application/octet-stream", content)
	}
	send(t, server, http.MethodPut, "/manifests/"+each.Digest.String(), string(each.MediaType), manifest)
}

// send sends a request to a registry, and returns the answer.
func send(t *testing.T, server *httptest.Server, method, path, kind string, content []byte) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/v2/bellerophon"+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %s, %s, %v", method, path, response.Status, answer, err)
	}
	return answer
}

// isBillOf checks that an artifact has the bill, and an image as its subject.
func isBillOf(t *testing.T, artifact v1.Image, of v1.Descriptor, bill []byte) {
	t.Helper()
	manifest, err := artifact.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if subject := manifest.Subject; subject == nil || subject.Digest != of.Digest || subject.Size != of.Size || subject.MediaType != of.MediaType {
		t.Errorf("the subject is %+v, want %+v", subject, of)
	}
	if manifest.ArtifactType != billType || manifest.Config.MediaType != "application/vnd.oci.empty.v1+json" || manifest.Config.Size != 2 {
		t.Errorf("the artifact has the type %q and the configuration %+v", manifest.ArtifactType, manifest.Config)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the artifact has %d files, %v", len(layers), err)
	}
	if kind, err := layers[0].MediaType(); err != nil || kind != billType {
		t.Errorf("the file has the type %q, %v", kind, err)
	}
	file, err := layers[0].Compressed() // As it is stored.
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil || !bytes.Equal(content, bill) {
		t.Errorf("the file has %d bytes, %v; want the %d bytes of the bill", len(content), err, len(bill))
	}
}
