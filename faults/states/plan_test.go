package states

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// twoFields returns two fields with values.
func twoFields() []*field {
	a := &field{path: []string{"spec", "a"}, values: []value{{name: "1", set: int64(1)}, {name: "2", set: int64(2)}, {name: "absent", absent: true}}}
	b := &field{path: []string{"spec", "b"}, values: []value{{name: "x", set: "x"}, {name: "y", set: "y"}}}
	return []*field{a, b}
}

func TestThePlanVisitsEachValueFirstAndHasNoWalkTwice(t *testing.T) {
	walks := planOf(twoFields(), []string{"n"})
	var first []string
	for _, w := range walks[:5] {
		if w.mode != steady || w.stops[0].String() != "base" || w.stops[2].String() != "base" {
			t.Errorf("the walk %s does not visit a value from the base", w)
		}
		first = append(first, w.stops[1].String())
	}
	if want := []string{"spec.a=1", "spec.b=x", "spec.a=2", "spec.b=y", "spec.a=absent"}; !slices.Equal(first, want) {
		t.Errorf("the first values are %q, want %q", first, want)
	}
	known := map[string]bool{}
	modes := map[mode]bool{}
	for _, w := range walks {
		if known[w.String()] {
			t.Errorf("%s is in the plan twice", w)
		}
		known[w.String()], modes[w.mode] = true, true
	}
	if len(modes) != 4 || !known["steady: spec.a=1 → spec.a=1, spec.b=x → spec.b=x"] || !known["hasty: spec.a=2 → spec.a=1 → spec.a=2"] {
		t.Errorf("the plan lacks walks; it has the modes %v", modes)
	}
}

func TestThePlanIsTheSameEachTime(t *testing.T) {
	root := &props{}
	a, b := planOf(twoFields(), nil), planOf(twoFields(), nil)
	if fingerprint(root, nil, a) != fingerprint(root, nil, b) {
		t.Error("two plans of one schema differ")
	}
	if fingerprint(root, nil, a) == fingerprint(root, map[string]any{"spec": nil}, a) {
		t.Error("two bases have the same fingerprint")
	}
}

func TestAJournalGoesOnWhereItEndedEvenWithinALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := must(openJournal(path, "plan"))(t)
	for _, walk := range []string{"one", "two"} {
		if err := j.finish(walk, []Problem{{EndsAsFresh, walk, "d"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	content := must(os.ReadFile(path))(t)
	if err := os.WriteFile(path, content[:len(content)-10], 0o600); err != nil { // As after a kill.
		t.Fatal(err)
	}
	j = must(openJournal(path, "plan"))(t)
	if !j.has("one") || j.has("two") || len(j.problems) != 1 {
		t.Errorf("the journal has one: %v, two: %v, problems %v", j.has("one"), j.has("two"), j.problems)
	}
	if err := errors.Join(j.finish("three", nil), j.close()); err != nil {
		t.Fatal(err)
	}
	j = must(openJournal(path, "plan"))(t)
	defer func() { _ = j.close() }()
	if !j.has("one") || !j.has("three") {
		t.Error("the journal lost a line")
	}
	if _, err := openJournal(path, "another"); !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), "Options.Journal") {
		t.Errorf("a journal of another plan: %v", err)
	}
}

func must[T any](made T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

func TestAWrongConfigurationIsRefusedWithTheNameOfTheOption(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Scope: apiextensionsv1.NamespaceScoped}}
	good := Subject{Config: &rest.Config{}, Definition: definition, Children: []schema.GroupVersionResource{{Version: "v1", Resource: "configmaps"}}}
	for want, change := range map[string]func(*Subject, *Options){
		"Subject.Config":     func(s *Subject, _ *Options) { s.Config = nil },
		"Subject.Definition": func(s *Subject, _ *Options) { s.Definition = nil },
		"is not namespaced":  func(s *Subject, _ *Options) { s.Definition = &apiextensionsv1.CustomResourceDefinition{} },
		"Subject.Children":   func(s *Subject, _ *Options) { s.Children = nil },
		"has no version":     func(s *Subject, _ *Options) { s.Children = []schema.GroupVersionResource{{Resource: "x"}} },
		"Subject.Version":    func(s *Subject, _ *Options) { s.Version = "v9" },
		"Options.Walks":      func(_ *Subject, o *Options) { o.Walks = -1 },
		"Options.Workers":    func(_ *Subject, o *Options) { o.Workers = 201 },
		"Options.Quiet":      func(_ *Subject, o *Options) { o.Quiet = time.Hour },
		"Options.Window":     func(_ *Subject, o *Options) { o.Window = -1 },
		"Options.Slice":      func(_ *Subject, o *Options) { o.Slice = time.Minute },
	} {
		subject, options := good, Options{}
		change(&subject, &options)
		if _, err := Explore(t.Context(), subject, options); !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that names %s", err, want)
		}
	}
}
