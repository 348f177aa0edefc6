package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// versionPrefix begins the names of the module files of other versions: kubernetes-1.35.mod and
// kubernetes-1.35.sum. They build the same main.go as go.mod does.
const versionPrefix = "kubernetes-"

// withKubernetes returns the source for a minor version such as 1.35. Empty stands for the version of go.mod.
func (s source) withKubernetes(minor string) (source, error) {
	if minor == "" {
		return s, nil
	}
	standard, err := s.kubernetesVersion()
	if err != nil {
		return source{}, err
	}
	known := []string{strings.TrimPrefix(semver.MajorMinor(standard), "v")}
	if minor == known[0] {
		return s, nil
	}
	files, err := filepath.Glob(filepath.Join(s.root, nested[0], versionPrefix+"*.mod"))
	if err != nil {
		return source{}, fmt.Errorf("list the versions of Kubernetes: %w", err)
	}
	for _, path := range files {
		known = append(known, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), versionPrefix), ".mod"))
	}
	if !slices.Contains(known, minor) {
		return source{}, fmt.Errorf("the version of Kubernetes is %q, which has no module file in tools/controlplane; choose one of %s", minor, strings.Join(known, ", "))
	}
	s.kubernetes = minor
	return s, nil
}

// modfile returns the name of the module file that builds the control plane.
func (s source) modfile() string {
	if s.kubernetes == "" {
		return "go.mod"
	}
	return versionPrefix + s.kubernetes + ".mod"
}

// modfileFlags returns the flags of the go command that select the module file.
func (s source) modfileFlags() []string {
	if s.kubernetes == "" {
		return nil
	}
	return []string{"-modfile=" + s.modfile()}
}

// isOfOtherVersion reports whether a file of the control plane's module selects dependencies of a version that is not
// built. Such a file does not change the build, so a new version must not make other ones stale.
func (s source) isOfOtherVersion(path string) bool {
	extension := filepath.Ext(path)
	return extension != ".go" && strings.TrimSuffix(filepath.Base(path), extension) != strings.TrimSuffix(s.modfile(), ".mod")
}

// kubernetesVersion returns the version that the module file requires, for example v1.36.3.
func (s source) kubernetesVersion() (string, error) {
	path := filepath.Join(s.root, nested[0], s.modfile())
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
