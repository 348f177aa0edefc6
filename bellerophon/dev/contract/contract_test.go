package contract_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// stored returns a ConfigMap as the API server stores it.
func stored(t *rapid.T, config *corev1.ConfigMap) *corev1.ConfigMap {
	encoded, err := config.Marshal()
	if err != nil {
		t.Fatalf("encode the ConfigMap: %v", err)
	}
	read := &corev1.ConfigMap{}
	if err := read.Unmarshal(encoded); err != nil {
		t.Fatalf("decode the ConfigMap: %v", err)
	}
	return read
}

var hashes = rapid.StringMatching(`([0-9a-f]{64})?`)

func TestSpecsSurviveTheirConfigMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := contract.Specs{
			Devfile: rapid.StringN(1, 200, -1).Draw(t, "devfile"),
			Files: contract.Files{
				Root: hashes.Draw(t, "root"), Count: rapid.IntMin(0).Draw(t, "count"), Bytes: rapid.Int64Min(0).Draw(t, "bytes"),
			},
			Options: contract.SpecsOptions{Debug: rapid.Bool().Draw(t, "debug")},
		}
		config, err := want.ConfigMap("stable", "hero")
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		config = stored(t, config)
		if config.Namespace != "stable" || config.Name != "hero" || !contract.IsSpecs(config) || config.Labels[contract.ApplicationLabel] != "hero" {
			t.Fatalf("the ConfigMap is %s/%s with the labels %v", config.Namespace, config.Name, config.Labels)
		}
		got, err := contract.SpecsOf(config)
		if err != nil || got != want {
			t.Fatalf("the Specs are %+v, %v; want %+v", got, err, want)
		}
	})
}

// text draws a text that JSON can hold, with quotes, ends of lines and characters of many bytes.
func text(t *rapid.T, label string) string {
	return rapid.StringN(0, 30, -1).Draw(t, label)
}

func command(t *rapid.T, label string) *contract.Command {
	if rapid.Bool().Draw(t, label+" is nil") {
		return nil
	}
	return &contract.Command{
		Name: text(t, label), Outcome: rapid.SampledFrom([]contract.Outcome{contract.Running, contract.Succeeded, contract.Failed}).Draw(t, label+" outcome"),
		Exit: rapid.IntRange(-1, 255).Draw(t, label+" exit"), Starts: rapid.IntMin(0).Draw(t, label+" starts"), Output: text(t, label+" output"),
	}
}

func TestAStatusSurvivesItsConfigMap(t *testing.T) {
	port := rapid.Custom(func(t *rapid.T) contract.Port {
		return contract.Port{Name: text(t, "port"), Target: rapid.IntRange(1, 65535).Draw(t, "target"), Local: text(t, "local")}
	})
	object := rapid.Custom(func(t *rapid.T) contract.Object {
		return contract.Object{APIVersion: text(t, "version"), Kind: text(t, "kind"), Namespace: text(t, "namespace"), Name: text(t, "name")}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := contract.Status{
			State: rapid.SampledFrom(contract.States()).Draw(t, "state"), Message: text(t, "message"), Specs: text(t, "specs"), Pod: text(t, "pod"),
			Sync: contract.Sync{
				Root: hashes.Draw(t, "root"), Files: rapid.IntMin(0).Draw(t, "files"), Sent: rapid.IntMin(0).Draw(t, "sent"),
				Removed: rapid.IntMin(0).Draw(t, "removed"), Bytes: rapid.Int64Min(0).Draw(t, "bytes"),
			},
			Build: command(t, "build"), Run: command(t, "run"),
		}
		// An empty list comes back as nil.
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			want.Sync.Problems = append(want.Sync.Problems, text(t, "problem"))
			want.Ports, want.Objects = append(want.Ports, port.Draw(t, "port")), append(want.Objects, object.Draw(t, "object"))
		}
		config, err := want.ConfigMap("stable", "hero")
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		config = stored(t, config)
		if config.Namespace != "stable" || config.Name != contract.StatusName("hero") || contract.IsSpecs(config) || config.Labels[contract.ApplicationLabel] != "hero" {
			t.Fatalf("the ConfigMap is %s/%s with the labels %v", config.Namespace, config.Name, config.Labels)
		}
		if config.Data["state"] != string(want.State) {
			t.Fatalf("kubectl shows the state %q, want %q", config.Data["state"], want.State)
		}
		got, err := contract.StatusOf(config)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("the Status is %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestSpecsThatCannotBeReadAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string]string
		want []string
	}{
		"nothing": {nil, []string{"read the Specs of hero: the ConfigMap has no devfile.yaml", "run bellerophon dev again"}},
		"no devfile": {map[string]string{"files.json": `{"root":"a"}`},
			[]string{"the ConfigMap has no devfile.yaml"}},
		"files that are no JSON": {map[string]string{"devfile.yaml": "a", "files.json": "{root"},
			[]string{"read files.json of the Specs of hero: invalid character 'r'"}},
		"files of another type": {map[string]string{"devfile.yaml": "a", "files.json": `{"count":"many"}`},
			[]string{"read files.json of the Specs of hero: ", "count"}},
		"options of another type": {map[string]string{"devfile.yaml": "a", "options.json": `[]`},
			[]string{"read options.json of the Specs of hero: "}},
		"more than one value": {map[string]string{"devfile.yaml": "a", "files.json": "{} {}"},
			[]string{"read files.json of the Specs of hero: "}},
	} {
		t.Run(name, func(t *testing.T) {
			config := &corev1.ConfigMap{Data: test.data}
			config.Name = "hero"
			got, err := contract.SpecsOf(config)
			if err == nil || got != (contract.Specs{}) {
				t.Fatalf("the Specs are %+v, %v; want an error and none", got, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestAStatusThatCannotBeReadIsAnError(t *testing.T) {
	for name, content := range map[string]string{"no JSON": "RunCommandRunning", "another type": `{"sync": "done"}`, "a half": `{"state": "Pod`} {
		t.Run(name, func(t *testing.T) {
			config := &corev1.ConfigMap{Data: map[string]string{"status.json": content}}
			config.Name = "hero-status"
			got, err := contract.StatusOf(config)
			if err == nil || !strings.HasPrefix(err.Error(), "read the Status in hero-status: ") || !reflect.DeepEqual(got, contract.Status{}) {
				t.Errorf("the Status is %+v, %v; want an error and the zero Status", got, err)
			}
		})
	}
	got, err := contract.StatusOf(&corev1.ConfigMap{})
	if err != nil || !reflect.DeepEqual(got, contract.Status{}) {
		t.Errorf("a ConfigMap without a Status gives %+v, %v; want the zero Status", got, err)
	}
}

func TestAnotherConfigMapIsNotSpecs(t *testing.T) {
	if contract.IsSpecs(&corev1.ConfigMap{}) {
		t.Error("a ConfigMap without labels counts as Specs")
	}
}

func TestTheStatesAreInTheOrderOfTheirProgress(t *testing.T) {
	want := []contract.State{"WaitDeployment", "WaitBindings", "PodRunning", "FilesSynced", "BuildCommandExecuted", "RunCommandRunning"}
	if got := contract.States(); !slices.Equal(got, want) {
		t.Errorf("the states are %q, want %q", got, want)
	}
	contract.States()[0] = "changed"
	if contract.States()[0] != contract.WaitDeployment {
		t.Error("a caller of States can change the states of others")
	}
}
