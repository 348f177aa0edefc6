package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeArchive writes an image, and an artifact that is attached to it. The archive has the layout of OCI, which
// containerd loads. It also has the list of images of `docker save`, for programs that know only this. Both
// name the same files.
func writeArchive(archive string, tag name.Tag, image, attached v1.Image) error {
	index, err := indexOf(tag, image, attached)
	if err != nil {
		return err
	}
	list, err := listOf(tag, image)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bellerophon-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if _, err := layout.Write(folder, index); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), list, 0o600); err != nil {
		return err
	}
	return pack(archive, os.DirFS(folder))
}

// indexOf returns the index of an archive. Only the image has a name, so the artifact is not loaded as an image.
func indexOf(tag name.Tag, image, attached v1.Image) (v1.ImageIndex, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	// containerd and the kubelet write the default registry without "index.".
	full := tag.Name()
	if rest, is := strings.CutPrefix(full, name.DefaultRegistry+"/"); is {
		full = "docker.io/" + rest
	}
	return mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform(), Annotations: map[string]string{
			"io.containerd.image.name":          full,
			"org.opencontainers.image.ref.name": tag.TagStr(),
		}}},
		mutate.IndexAddendum{Add: attached},
	), nil
}

// listOf returns the list of images that `docker save` writes.
func listOf(tag name.Tag, image v1.Image) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(of v1.Descriptor) string { return "blobs/" + of.Digest.Algorithm + "/" + of.Digest.Hex }
	entry := tarball.Descriptor{Config: blob(manifest.Config), RepoTags: []string{tag.String()}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer))
	}
	return json.Marshal(tarball.Manifest{entry})
}

// pack writes files to an archive, in the order of their names and without times.
func pack(archive string, files fs.FS) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	writer := tar.NewWriter(out)
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := writer.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = writer.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", archive, err)
	}
	return writer.Close()
}
