package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// versionsOf returns the minor versions of Kubernetes that a checkout can build.
func versionsOf(t *testing.T, checkout source) []string {
	t.Helper()
	standard, err := checkout.kubernetesVersion()
	if err != nil {
		t.Fatal(err)
	}
	minors := []string{strings.TrimPrefix(semver.MajorMinor(standard), "v")}
	files, err := filepath.Glob(filepath.Join(checkout.root, nested[0], versionPrefix+"*.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		minors = append(minors, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), versionPrefix), ".mod"))
	}
	return minors
}

func hashOf(t *testing.T, s source, minor string) string {
	t.Helper()
	s, err := s.withKubernetes(minor)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := s.hash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// versionedSource writes a checkout with Kubernetes 1.36 and 1.35.
func versionedSource(t *testing.T) source {
	t.Helper()
	root := t.TempDir()
	for _, module := range nested {
		write(t, filepath.Join(root, module, "main.go"), "package main\n", 0o644)
	}
	for name, version := range map[string]string{"go": "v1.36.3", "kubernetes-1.35": "v1.35.4"} {
		write(t, filepath.Join(root, nested[0], name+".mod"), "module x\n\nrequire k8s.io/kubernetes "+version+"\n", 0o644)
		write(t, filepath.Join(root, nested[0], name+".sum"), version, 0o644)
	}
	return source{root: root}
}

func TestEachVersionOfKubernetesIsBuiltFromItsModuleFile(t *testing.T) {
	checkout := versionedSource(t)
	for minor, wanted := range map[string]struct{ version, modfile string }{
		"": {"v1.36.3", "go.mod"}, "1.36": {"v1.36.3", "go.mod"}, "1.35": {"v1.35.4", "kubernetes-1.35.mod"},
	} {
		chosen, err := checkout.withKubernetes(minor)
		if err != nil {
			t.Fatal(err)
		}
		if version, err := chosen.kubernetesVersion(); err != nil || version != wanted.version || chosen.modfile() != wanted.modfile {
			t.Errorf("for %q: %q from %q, %v, want %v", minor, version, chosen.modfile(), err, wanted)
		}
	}
	for _, unknown := range []string{"1.34", "v1.35", "1.35.4", "../1.35", "*"} {
		if _, err := checkout.withKubernetes(unknown); err == nil || !strings.Contains(err.Error(), "1.36, 1.35") {
			t.Errorf("for %q: error %v, want one that names 1.36 and 1.35", unknown, err)
		}
	}
}

func TestAVersionOfKubernetesIsBuiltAgainOnlyAfterAChangeOfItsOwn(t *testing.T) {
	checkout := versionedSource(t)
	before := map[string]string{"1.36": hashOf(t, checkout, "1.36"), "1.35": hashOf(t, checkout, "1.35")}
	if before["1.36"] == before["1.35"] || before["1.36"] != hashOf(t, checkout, "") {
		t.Errorf("hashes %v and %s without a version, want one for each version", before, hashOf(t, checkout, ""))
	}
	for name, changed := range map[string]string{"go.sum": "1.36", "kubernetes-1.35.sum": "1.35"} {
		path := filepath.Join(checkout.root, nested[0], name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "changed", 0o644)
		for minor, hash := range before {
			if isChanged := hashOf(t, checkout, minor) != hash; isChanged != (minor == changed) {
				t.Errorf("after a change of %s the hash of %s is another: %v", name, minor, isChanged)
			}
		}
		write(t, path, string(content), 0o644)
	}
}

func TestTheModuleFilesOfAVersionAgree(t *testing.T) {
	checkout, err := findSource(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, minor := range versionsOf(t, checkout) {
		chosen, err := checkout.withKubernetes(minor)
		if err != nil {
			t.Fatal(err)
		}
		version, err := chosen.kubernetesVersion()
		if err != nil {
			t.Fatal(err)
		}
		if semver.MajorMinor(version) != "v"+minor {
			t.Errorf("%s requires Kubernetes %s", chosen.modfile(), version)
		}
		path := filepath.Join(chosen.root, nested[0], chosen.modfile())
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(path, content, nil)
		if err != nil {
			t.Fatal(err)
		}
		staging := strings.Replace(version, "v1.", "v0.", 1)
		for _, replace := range file.Replace {
			if replace.New.Path != replace.Old.Path || replace.New.Version != staging {
				t.Errorf("%s replaces %s by %v, want version %s", chosen.modfile(), replace.Old.Path, replace.New, staging)
			}
		}
		if len(file.Replace) == 0 {
			t.Errorf("%s replaces no staging module", chosen.modfile())
		}
	}
}

func TestAVersionOfKubernetesAndProgramsOfTheUserExcludeEachOther(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	t.Setenv("BELLEROPHON_KUBERNETES", "1.35")
	if err := Build(t.Context(), Options{CacheDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "leave out one") {
		t.Errorf("error %v, want one that says to leave out one of them", err)
	}
}
