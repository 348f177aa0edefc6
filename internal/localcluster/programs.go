package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	kwokName = "kwok"
	// stagesName is the directory of kwok's stage files, beside the binaries. The stages define
	// what kwok simulates.
	stagesName = "stages"
	// pauseName is the first program of every Pod of a real node.
	pauseName = "pause"
)

// components lists the programs of the control plane. tools/controlplane builds them as one
// binary.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

// nodeComponents lists the programs of a real node that are part of the same binary.
var nodeComponents = []string{"kubelet", "kube-proxy"}

// nodeServices lists the programs of a real node that tools/node builds as one binary.
var nodeServices = []string{"coredns", "local-volumes"}

// apiComponents lists the programs of a cluster with APIOnly.
var apiComponents = []string{"etcd", "kube-apiserver"}

// programs holds the paths of the binaries that a cluster runs, and of kwok's stages.
type programs struct {
	paths  map[string]string
	stages []string
}

func (p programs) path(name string) string { return p.paths[name] }

// Assets builds what is missing of the binaries, and returns a directory with all of them, which fits
// KUBEBUILDER_ASSETS of envtest. It fails if some of them are in one directory and some in another.
func Assets(ctx context.Context, options Options) (string, error) {
	options, err := options.complete()
	if err != nil {
		return "", err
	}
	found, err := findPrograms(ctx, options)
	if err != nil {
		return "", fmt.Errorf("localcluster: %w", err)
	}
	directory := filepath.Dir(found.path("etcd"))
	for name, path := range found.paths {
		if filepath.Dir(path) != directory {
			return "", fmt.Errorf("localcluster: %s is in %s, and etcd in %s; unset KUBEBUILDER_ASSETS, or give it a directory with all programs", name, filepath.Dir(path), directory)
		}
	}
	return directory, nil
}

// Build builds the binaries that a first Start needs, which takes minutes. It does nothing if
// they exist. Start builds them too.
func Build(ctx context.Context, options Options) error {
	options, err := options.complete()
	if err != nil {
		return err
	}
	if _, err := findPrograms(ctx, options); err != nil {
		return fmt.Errorf("localcluster: %w", err)
	}
	return nil
}

// findPrograms takes the programs that KUBEBUILDER_ASSETS has, and builds the rest.
func findPrograms(ctx context.Context, options Options) (programs, error) {
	assets, err := assetsDirectory()
	if err != nil {
		return programs{}, err
	}
	if assets != "" && options.Kubernetes != "" {
		return programs{}, fmt.Errorf("KUBEBUILDER_ASSETS is %q and Kubernetes is %q; the programs there have a version of their own, so leave out one of them", assets, options.Kubernetes)
	}
	found := programs{paths: map[string]string{}}
	var missing []string
	needed := neededPrograms(options)
	for _, name := range needed {
		path := filepath.Join(assets, name)
		if assets == "" || !isUsable(path) {
			missing = append(missing, name)
			continue
		}
		found.paths[name] = path
		options.Logger.Info("using a program of KUBEBUILDER_ASSETS", "path", path)
	}
	if len(missing) > 0 {
		built, err := build(ctx, options, missing)
		if err != nil {
			return programs{}, err
		}
		for _, name := range missing {
			found.paths[name] = filepath.Join(built, name)
		}
	}
	if !slices.Contains(needed, stagesName) {
		return found, nil
	}
	stages := found.path(stagesName)
	if found.stages, err = filepath.Glob(filepath.Join(stages, "*.yaml")); err != nil || len(found.stages) == 0 {
		return programs{}, fmt.Errorf("find kwok's stage files: %s has none; remove this directory, and the next start builds it again", stages)
	}
	return found, nil
}

// neededPrograms lists what a cluster runs.
func neededPrograms(options Options) []string {
	switch {
	case options.APIOnly:
		return apiComponents
	case options.Nodes == RealNode:
		return slices.Concat([]string{pauseName}, nodeServices, components, nodeComponents)
	}
	return slices.Concat([]string{stagesName, kwokName}, components)
}

// assetsDirectory returns the absolute path from KUBEBUILDER_ASSETS, or an empty string if it is
// not set.
func assetsDirectory() (string, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return "", nil
	}
	if info, err := os.Stat(assets); err != nil || !info.IsDir() {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS is %q, which is not a directory; correct it, or unset it to build the control plane", assets)
	}
	assets, err := filepath.Abs(assets)
	if err != nil {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS: %w", err)
	}
	return assets, nil
}

// isUsable reports whether path is an executable program or the directory of stages.
func isUsable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || info.Mode().Perm()&0o111 != 0)
}

// wayOut describes the alternatives to a build.
func wayOut() string {
	return fmt.Sprintf("set KUBEBUILDER_ASSETS to a directory with %s, %s and %s/ (a copy from another machine), "+
		"or use your own cluster with --kubeconfig", strings.Join(components, ", "), kwokName, stagesName)
}
