package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	kwokName = "kwok"
	// stagesName is the directory, beside the binaries, of kwok's stage files. They say
	// what it simulates.
	stagesName = "stages"
)

// components of the control plane, all of which tools/controlplane builds as one program.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

// programs are the binaries that a cluster runs, and what kwok is to simulate.
type programs struct {
	paths  map[string]string
	stages []string
}

func (p programs) path(name string) string { return p.paths[name] }

// Build makes what a first Start would have to build, which takes minutes, and nothing if
// that has been done. Start does the same.
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

// findPrograms takes from KUBEBUILDER_ASSETS what is there, and builds the rest.
func findPrograms(ctx context.Context, options Options) (programs, error) {
	assets, err := assetsDirectory()
	if err != nil {
		return programs{}, err
	}
	found := programs{paths: map[string]string{}}
	var missing []string
	for _, name := range append([]string{stagesName, kwokName}, components...) {
		path := filepath.Join(assets, name)
		if assets == "" || !isUsable(path) {
			missing = append(missing, name)
			continue
		}
		found.paths[name] = path
		options.Logger.Info("using what KUBEBUILDER_ASSETS has", "path", path)
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
	stages := found.path(stagesName)
	if found.stages, err = filepath.Glob(filepath.Join(stages, "*.yaml")); err != nil || len(found.stages) == 0 {
		return programs{}, fmt.Errorf("%s has no stage files of kwok; remove it, and the next start makes it again", stages)
	}
	return found, nil
}

// assetsDirectory is what KUBEBUILDER_ASSETS says, or empty.
func assetsDirectory() (string, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return "", nil
	}
	if info, err := os.Stat(assets); err != nil || !info.IsDir() {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS is %q, which is no directory; correct it, or unset it to have the control plane built", assets)
	}
	assets, err := filepath.Abs(assets)
	if err != nil {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS: %w", err)
	}
	return assets, nil
}

// isUsable: a program, or the directory of stages.
func isUsable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || info.Mode().Perm()&0o111 != 0)
}

// wayOut is what to do instead of building.
func wayOut() string {
	return fmt.Sprintf("set KUBEBUILDER_ASSETS to a directory with %s, %s and %s/ (a copy of what another machine built), "+
		"or use a cluster of yours with --kubeconfig", strings.Join(components, ", "), kwokName, stagesName)
}
