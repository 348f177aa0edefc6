// Package subjects builds the operators of this repository that the harness of package faults puts
// through faults, with their workloads.
package subjects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bellerophon-io/bellerophon/faults"
)

// ErrNoToolchain means that a program which builds the operator is not installed.
var ErrNoToolchain = errors.New("its toolchain is not installed")

// builders are the subjects by their names, in the order of reports.
var builders = []struct {
	name  string
	build func(ctx context.Context, b builder) (faults.Subject, error)
}{
	{"bellerophon", bellerophon},
	{"several", several},
	{"jobset", jobSet},
	{"controller-runtime", controllerRuntime},
	{"tutorial", tutorial},
}

// Named builds the subjects of a comma-separated list of names, or all if it is "all". The programs are built
// into a folder. If it is empty, they are kept in the user's cache directory. Output of the tools is in errors.
func Named(ctx context.Context, names, folder string) ([]faults.Subject, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("subjects: find the cache directory: %w", err)
		}
		sum := sha256.Sum256([]byte(root)) // Checkouts have programs of their own.
		folder = filepath.Join(cache, "bellerophon", "faults-"+hex.EncodeToString(sum[:4]))
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("subjects: create the folder for programs: %w", err)
	}
	var all, known []string
	for _, each := range builders {
		known = append(known, each.name)
	}
	if all = strings.Split(names, ","); names == "all" {
		all = known
	}
	var subjects []faults.Subject
	for _, name := range all {
		found := false
		for _, each := range builders {
			if each.name != name {
				continue
			}
			found = true
			subject, err := each.build(ctx, builder{root, folder})
			if err != nil {
				return nil, fmt.Errorf("subjects: build %s: %w", name, err)
			}
			subject.Name = name
			subjects = append(subjects, subject)
		}
		if !found {
			return nil, fmt.Errorf("subjects: there is no %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return subjects, nil
}

// builder builds programs of the checkout into a folder.
type builder struct{ root, folder string }

// checkout walks up from the working directory to the root of the checkout.
func checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("subjects: find the checkout: %w", err)
	}
	for directory := start; ; directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.work")); err == nil {
			return directory, nil
		}
		if directory == filepath.Dir(directory) {
			return "", fmt.Errorf("subjects: neither %s nor a directory above it is a checkout", start)
		}
	}
}

// run runs a tool in a folder of the checkout, and returns what it prints.
func (b builder) run(ctx context.Context, folder string, environment []string, name string, arguments ...string) (string, error) {
	if _, err := exec.LookPath(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoToolchain, err)
	}
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = filepath.Join(b.root, filepath.FromSlash(folder))
	command.Env = append(command.Environ(), environment...)
	var output bytes.Buffer
	command.Stderr = &output
	printed, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, output.String())
	}
	return strings.TrimSpace(string(printed)), nil
}

// program builds a main package of a module.
func (b builder) program(ctx context.Context, module, pkg string, environment ...string) (string, error) {
	program := filepath.Join(b.folder, strings.ReplaceAll(module+"/"+pkg, "/", "-"))
	_, err := b.run(ctx, module, environment, "go", "build", "-buildvcs=false", "-o", program, pkg)
	return program, err
}

// command returns a command that gets the path of its kubeconfig in the environment, and nothing that the
// user has set for other programs.
func command(kubeconfig, program string, arguments ...string) *exec.Cmd {
	made := exec.Command(program, arguments...)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "JAVA_HOME"} {
		if value, set := os.LookupEnv(name); set {
			made.Env = append(made.Env, name+"="+value)
		}
	}
	made.Env = append(made.Env, "KUBECONFIG="+kubeconfig, "METRICS_PORT=0")
	return made
}
