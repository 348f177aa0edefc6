package localcluster

import (
	"crypto/sha256"
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
var nested = []string{filepath.Join("tools", "controlplane"), filepath.Join("tools", "kwok")}

// source is a checkout of Bellerophon.
type source struct{ root string }

// findSource walks up from the working directory to the root of the checkout.
func findSource() (source, error) {
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
			return source{}, fmt.Errorf("find the source of the control plane: neither %s nor a directory above it is a checkout of %s; "+
				"run this in a checkout, or %s", start, modulePath, wayOut())
		}
	}
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

// kubernetesVersion returns the version that tools/controlplane requires, for example v1.36.3.
func (s source) kubernetesVersion() (string, error) {
	path := filepath.Join(s.root, nested[0], "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	file, err := modfile.ParseLax(path, content, nil)
	if err != nil {
		return "", fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	for _, require := range file.Require {
		if require.Mod.Path == "k8s.io/kubernetes" {
			return require.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("read the version of Kubernetes: %s does not require k8s.io/kubernetes", path)
}
