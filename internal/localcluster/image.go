package localcluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// WriteProgramImage writes an archive for [Cluster.LoadImage]. The image has nothing but a static
// Linux program, which runs as root unless the Pod names a user.
func WriteProgramImage(archive, name, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("make the image %s: %w", name, err)
	}
	layer := tarOf(entry{name: filepath.Base(program), mode: 0o755, content: content})
	config := encodeJSON(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + filepath.Base(program)}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest := encodeJSON([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	image := tarOf(
		entry{name: "config.json", mode: 0o644, content: config},
		entry{name: "layer.tar", mode: 0o644, content: layer},
		entry{name: "manifest.json", mode: 0o644, content: manifest},
	)
	if err := os.WriteFile(archive, image, 0o600); err != nil {
		return fmt.Errorf("make the image %s: %w", name, err)
	}
	return nil
}

// entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

func tarOf(entries ...entry) []byte {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, e := range entries {
		err := writer.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), Format: tar.FormatUSTAR})
		if err == nil {
			_, err = io.Copy(writer, bytes.NewReader(e.content))
		}
		if err != nil {
			panic(err) // A buffer takes everything, and the names are short.
		}
	}
	if err := writer.Close(); err != nil {
		panic(err) // As above.
	}
	return archive.Bytes()
}

func encodeJSON(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // Strings, lists and maps can always be encoded.
	}
	return encoded
}
