package devtest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"k8s.io/client-go/rest"
)

// Tree returns the files and symbolic links below a directory of a container. It runs tar there.
func Tree(ctx context.Context, config *rest.Config, at container.Place, directory string) (worktree.Tree, error) {
	archive, err := Exec(ctx, config, at, nil, "tar", "-C", directory, "--hard-dereference", "-cf", "-", ".")
	if err != nil {
		return nil, err
	}
	tree, err := treeOf(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("read the tree %s of %s: %w", directory, at.Pod, err)
	}
	return tree, nil
}

// treeOf returns the tree of an archive.
func treeOf(archive io.Reader) (worktree.Tree, error) {
	tree := worktree.Tree{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return tree, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
		case tar.TypeSymlink:
			tree[name] = worktree.File{Mode: fs.ModeSymlink | fs.FileMode(header.Mode).Perm(), Link: header.Linkname}
		case tar.TypeReg:
			sum := sha256.New()
			if _, err := io.Copy(sum, reader); err != nil {
				return nil, err
			}
			tree[name] = worktree.File{Mode: fs.FileMode(header.Mode).Perm(), Size: header.Size, Sum: hex.EncodeToString(sum.Sum(nil))}
		default:
			return nil, fmt.Errorf("%s is neither a file nor a directory nor a symbolic link, but a %c", name, header.Typeflag)
		}
	}
}
