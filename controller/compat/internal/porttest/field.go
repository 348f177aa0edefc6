package porttest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Field is a place where an operator works: the same namespace for one runtime after the other.
type Field struct {
	T         *testing.T
	Namespace string
	Client    client.Client
	Patience  time.Duration       // how long Wait waits
	State     []client.ObjectList // what is compared
	Cleared   []client.Object     // what is deleted after a run, in this order

	// Unequal, if set, matches texts that differ from one run to the next, beside uids and times.
	Unequal *regexp.Regexp
}

// NewField returns a field for the kinds of client-go's scheme.
func NewField(t *testing.T) *Field {
	t.Helper()
	f := &Field{T: t, Namespace: clustertest.Namespace(t), Patience: 30 * time.Second}
	var err error
	f.Client, err = client.New(clustertest.Shared(t).AdminConfig(), client.Options{Scheme: scheme.Scheme})
	f.Must(err)
	return f
}

// Must fails the test if there is an error.
func (f *Field) Must(err error) {
	f.T.Helper()
	if err != nil {
		f.T.Fatal(err)
	}
}

// Wait waits until a condition holds. It polls, as the operators of both runtimes must not share a watch with it.
func (f *Field) Wait(what string, holds func() (bool, string)) {
	f.T.Helper()
	for deadline := time.Now().Add(f.Patience); ; <-time.After(20 * time.Millisecond) {
		done, state := holds()
		if done {
			return
		}
		if time.Now().After(deadline) {
			f.T.Fatalf("%s: %s", what, state)
		}
	}
}

// Module returns the folder of a module.
func (f *Field) Module(path string) string {
	f.T.Helper()
	command := exec.CommandContext(f.T.Context(), "go", "list", "-m", "-f", "{{.Dir}}", path)
	command.Env = append(command.Environ(), "GOWORK=off")
	folder, err := command.Output()
	f.Must(err)
	return strings.TrimSpace(string(folder))
}

// Install installs definitions from the files of a module, and waits until lists are served.
func (f *Field) Install(module, pattern string, lists ...client.ObjectList) {
	f.T.Helper()
	files, err := filepath.Glob(filepath.Join(f.Module(module), pattern))
	f.Must(err)
	if len(files) == 0 {
		f.T.Fatalf("%s has no definitions in %s", module, pattern)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		f.Must(err)
		definition := &unstructured.Unstructured{}
		f.Must(yaml.Unmarshal(content, &definition.Object))
		f.Must(client.IgnoreAlreadyExists(f.Client.Create(f.T.Context(), definition)))
	}
	for _, list := range lists {
		f.Wait("the kinds are not served", func() (bool, string) {
			err := f.Client.List(f.T.Context(), list)
			return err == nil, fmt.Sprint(err)
		})
	}
}

// clear deletes everything, and waits until it is gone.
func (f *Field) clear() {
	for _, object := range f.Cleared {
		f.Must(f.Client.DeleteAllOf(f.T.Context(), object, client.InNamespace(f.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0)))
	}
	f.Wait("objects remain", func() (bool, string) { left := f.state(); return len(left) == 0, fmt.Sprint(len(left), left) })
}

// differing are the uids and times of an object.
var differing = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9-]{10}T[0-9:.]+Z`)

// state returns what the operator has made of the load.
func (f *Field) state() map[string]string {
	state := map[string]string{}
	same := func(text string) string {
		if f.Unequal != nil {
			text = f.Unequal.ReplaceAllString(text, "…")
		}
		return differing.ReplaceAllString(text, "…")
	}
	for _, list := range f.State {
		if err := f.Client.List(f.T.Context(), list, client.InNamespace(f.Namespace)); !apierrors.IsNotFound(err) {
			f.Must(err)
		}
		f.Must(meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			object.SetResourceVersion("")
			slices.SortFunc(object.GetManagedFields(), func(a, b metav1.ManagedFieldsEntry) int { // The API server sorts them by time, which differs between two runs.
				return strings.Compare(a.Manager+a.Subresource, b.Manager+b.Subresource)
			})
			encoded, err := json.MarshalIndent(object, "", " ")
			name := fmt.Sprintf("%T %s", object, same(object.GetName()))
			for state[name] != "" {
				name += "'" // Another object whose name differs from one run to the next.
			}
			state[name] = same(string(encoded))
			return err
		}))
	}
	return state
}
