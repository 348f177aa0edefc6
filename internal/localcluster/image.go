package localcluster

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// imageNamespace is containerd's namespace for the images of Kubernetes.
const imageNamespace = "k8s.io"

// LoadImage loads the images of an archive into the real node. The archive is a file as `docker save`
// or `bellerophon image` writes it, or one with an OCI image layout. Pods that name such an image start without
// a registry.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	if c.starter.options.Nodes != RealNode {
		return errors.New("localcluster: load an image: the simulated node runs no containers; start the cluster with Nodes set to real")
	}
	if err := c.starter.loadImage(ctx, c.children, archive); err != nil {
		return fmt.Errorf("localcluster: %w", err)
	}
	return nil
}

func (s *starter) loadImage(ctx context.Context, children *family, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	defer file.Close()
	// The node does not see all directories of this machine. It reads the archive from standard input.
	// ctr waits until containerd listens.
	if err := children.runOnNode(ctx, file, s.host.ctr, "--namespace="+imageNamespace, "images", "import", "-"); err != nil {
		return fmt.Errorf("load the image %s: %w", archive, err)
	}
	return nil
}

// Image describes an image of one layer, which runs as root unless the Pod names a user.
type Image struct {
	Name       string
	Entrypoint []string
	Env        []string // such as "PATH=/bin"
	Files      []ImageFile
}

// ImageFile is a regular file or a directory of an image. Directories that an image does not list have the
// mode 0755.
type ImageFile struct {
	Path    string      // such as "bin/sh"
	Mode    fs.FileMode // the permissions, fs.ModeSticky, and fs.ModeDir for a directory
	Source  string      // the file of this machine with the content and the time; empty if Content is the content
	Content []byte
}

// WriteProgramImage writes an archive for [Cluster.LoadImage]. The image has nothing but a static
// Linux program, which runs as root unless the Pod names a user.
func WriteProgramImage(archive, name, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("make the image %s: %w", name, err)
	}
	base := filepath.Base(program)
	return WriteImage(archive, Image{
		Name:       name,
		Entrypoint: []string{"/" + base},
		Files:      []ImageFile{{Path: base, Mode: 0o755, Content: content}},
	})
}

// WriteImage writes an archive for [Cluster.LoadImage]. It holds no file in memory, so that an image may be
// large.
func WriteImage(archive string, image Image) error {
	if err := image.write(archive); err != nil {
		return fmt.Errorf("make the image %s: %w", image.Name, err)
	}
	return nil
}

func (i Image) write(archive string) (err error) {
	// A tar header has the size, which is known only after the layer has been written.
	layer, err := os.CreateTemp(filepath.Dir(archive), "layer-*.tar")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, layer.Close(), os.Remove(layer.Name())) }()
	sum := sha256.New()
	if err := writeTar(io.MultiWriter(layer, sum), i.Files); err != nil {
		return err
	}
	config := encodeJSON(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": i.Entrypoint, "Env": i.Env},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sum.Sum(nil))}},
	})
	const layerName = "layer.tar"
	manifest := encodeJSON([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": []string{layerName}}})
	file, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(file, []ImageFile{
		{Path: "config.json", Mode: 0o644, Content: config},
		{Path: layerName, Mode: 0o644, Source: layer.Name()},
		{Path: "manifest.json", Mode: 0o644, Content: manifest},
	}), file.Close())
}

func writeTar(to io.Writer, files []ImageFile) error {
	buffered := bufio.NewWriterSize(to, 1<<20)
	writer := tar.NewWriter(buffered)
	for _, file := range files {
		if err := file.write(writer); err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
	}
	return errors.Join(writer.Close(), buffered.Flush())
}

func (f ImageFile) write(to *tar.Writer) error {
	// The format PAX has times in nanoseconds. Go's build cache compares the times of a package's files.
	header := &tar.Header{Name: f.Path, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Content)), Format: tar.FormatPAX}
	if f.Mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if f.Mode.IsDir() {
		header.Typeflag, header.Name = tar.TypeDir, f.Path+"/"
	}
	var content io.Reader = bytes.NewReader(f.Content)
	if f.Source != "" {
		source, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		header.Size, header.ModTime, content = info.Size(), info.ModTime(), source
	}
	if err := to.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(to, content)
	return err
}

func encodeJSON(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // Strings, lists and maps can always be encoded.
	}
	return encoded
}
