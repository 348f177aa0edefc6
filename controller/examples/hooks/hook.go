package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// configTimeout bounds the run of a hook with --config.
const configTimeout = 30 * time.Second

// Hook is an executable file of the directory, with its configuration.
type Hook struct {
	Name   string // the path from the directory
	Path   string
	Config *Config

	watches []*watching
}

// loadHooks finds the executable files of a directory and its folders, and asks each for its configuration.
// Hidden files and folders, and folders named lib, are left out. It returns the hooks in the order of their
// names, and one error for all hooks that are wrong.
func loadHooks(ctx context.Context, directory string, runs *runner, logger *slog.Logger) ([]*Hook, error) {
	directory, err := filepath.Abs(directory) // A hook runs in its own folder.
	if err != nil {
		return nil, err
	}
	var hooks []*Hook
	var wrong []error
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == directory {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".")
		switch {
		case entry.IsDir() && (hidden || entry.Name() == "lib"):
			return fs.SkipDir
		case entry.IsDir() || hidden:
			return nil
		}
		info, err := os.Stat(path) // Files of a mounted ConfigMap are symbolic links.
		if err != nil {
			return err
		}
		name, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			logger.Info("not a hook: it is not an executable file", "file", name)
			return nil
		}
		hook := &Hook{Name: name, Path: path}
		if hook.Config, err = runs.config(ctx, hook); err != nil {
			wrong = append(wrong, fmt.Errorf("hook %s: %w", name, err))
			return nil
		}
		hooks = append(hooks, hook)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the hooks of %s: %w", directory, err)
	}
	if len(hooks)+len(wrong) == 0 {
		return nil, fmt.Errorf("%s has no executable files; make the hooks executable with chmod +x", directory)
	}
	return hooks, errors.Join(wrong...)
}

// config runs a hook with --config, and reads what it prints.
func (r *runner) config(ctx context.Context, hook *Hook) (*Config, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, configTimeout, fmt.Errorf("--config took more than %v", configTimeout))
	defer cancel()
	printed := &bytes.Buffer{}
	if err := r.execute(ctx, hook, []string{"--config"}, nil, printed); err != nil {
		return nil, fmt.Errorf("running it with --config: %w", err)
	}
	return parseConfig(printed.Bytes())
}

// bind resolves the kinds of the hooks' bindings.
func bind(ctx context.Context, hooks []*Hook, known *kinds, logger *slog.Logger) error {
	var wrong []error
	for _, hook := range hooks {
		for i := range hook.Config.Kubernetes {
			binding := &hook.Config.Kubernetes[i]
			found, err := known.find(ctx, binding.APIVersion, binding.Kind)
			if err == nil && !found.namespaced && binding.Namespace != nil {
				err = fmt.Errorf("namespace is set, but %v has no namespaces; leave it out", found.GroupKind())
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("hook %s: kubernetes[%d]: %w", hook.Name, i, err))
				continue
			}
			hook.watches = append(hook.watches, &watching{
				KubernetesBinding: binding, hook: hook, kind: found, logger: logger,
				pending: map[types.NamespacedName]*pendingChange{},
			})
		}
	}
	return errors.Join(wrong...)
}
