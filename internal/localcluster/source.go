package localcluster

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// modulePath is the path of the module whose checkout contains the nested modules.
const modulePath = "github.com/bellerophon-io/bellerophon"

// nested lists the modules, relative to the root of the checkout, from which the binaries are
// built.
var nested = []string{filepath.Join("tools", "controlplane"), filepath.Join("tools", "kwok"), filepath.Join("tools", "node")}

// source is a checkout of Bellerophon, and the version of Kubernetes that is built from it.
type source struct {
	root       string
	kubernetes string // a minor version such as 1.35, or empty for the one of go.mod
}

// findSource walks up from the working directory to the root of the checkout. Outside of a checkout, as in
// a module that imports this one, it writes the source that is part of this package to the cache.
func findSource(cache string) (source, error) {
	start, err := os.Getwd()
	if err != nil {
		return source{}, fmt.Errorf("find the source of the control plane: %w", err)
	}
	for directory := start; ; directory = filepath.Dir(directory) {
		content, err := os.ReadFile(filepath.Join(directory, "go.mod"))
		if err == nil && modfile.ModulePath(content) == modulePath {
			return source{root: directory}, nil
		}
		if directory == filepath.Dir(directory) {
			return writeSource(cache)
		}
	}
}

// archive holds the files of the nested modules, because a module does not contain its nested ones. Make it
// anew after a change: go test ./internal/localcluster -run TestTheArchiveHasTheSource -update-archive.
//
//go:embed source.zip
var archive []byte

// writeSource writes the files of the archive to the cache, unless they are there.
func writeSource(cache string) (source, error) {
	sum := sha256.Sum256(archive)
	root := filepath.Join(cache, "source-"+hex.EncodeToString(sum[:])[:16])
	if info, err := os.Stat(root); err == nil && info.IsDir() {
		return source{root: root}, nil
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return source{}, fmt.Errorf("read the source of the control plane: %w", err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return source{}, cacheError(cache, err)
	}
	// A directory of the final name is complete.
	written, err := os.MkdirTemp(cache, "source-")
	if err != nil {
		return source{}, cacheError(cache, err)
	}
	defer os.RemoveAll(written) // Nothing is left to remove after the rename.
	if err := os.CopyFS(written, files); err != nil {
		return source{}, fmt.Errorf("write the source of the control plane: %w", err)
	}
	if err := os.Rename(written, root); err != nil {
		if info, statErr := os.Stat(root); statErr != nil || !info.IsDir() { // Another process may have been faster.
			return source{}, fmt.Errorf("write the source of the control plane: %w", err)
		}
	}
	return source{root: root}, nil
}

// hash returns a hash over everything that the binaries depend on. A different hash means a
// different build.
func (s source) hash() (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildEnvironment, buildFlags, linkerFlags, versionPackages, stageFiles)
	for _, module := range nested {
		files, err := moduleFiles(filepath.Join(s.root, module))
		if err != nil {
			return "", fmt.Errorf("hash the source of the control plane: %w", err)
		}
		for _, path := range files {
			if module == nested[0] && s.isOfOtherVersion(path) {
				continue
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("hash the source of the control plane: %w", err)
			}
			relative := strings.TrimPrefix(path, s.root)
			fmt.Fprintf(hash, "%s %d\n%s", filepath.ToSlash(relative), len(content), content)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// moduleFiles returns the go.mod, go.sum and Go files below a directory, in order.
func moduleFiles(directory string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".go", ".mod", ".sum"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New("it has no go.mod, go.sum or Go files")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", directory, err)
	}
	return files, nil
}
