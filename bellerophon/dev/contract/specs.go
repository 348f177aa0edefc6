package contract

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ApplicationLabel is on every object of an application, with the application's name.
	ApplicationLabel = "dev.bellerophon.io/application"

	// PartLabel tells the ConfigMap of Specs from the ConfigMap of Status.
	PartLabel = "dev.bellerophon.io/part"

	specsPart   = "specs"
	statusPart  = "status"
	devfileKey  = "devfile.yaml"
	filesKey    = "files.json"
	optionsKey  = "options.json"
	statusKey   = "status.json"
	stateKey    = "state" // For people with kubectl.
	statusAfter = "-status"
)

// Specs is what the client wants of an application.
type Specs struct {
	Devfile string // the flattened devfile, as YAML
	Files   Files
	Options SpecsOptions
}

// Files identifies the files of a project.
type Files struct {
	Root  string `json:"root"`  // the hash of the tree; see worktree.Tree.Root
	Count int    `json:"count"` // the number of files
	Bytes int64  `json:"bytes"` // the sum of their sizes
}

// SpecsOptions holds what the user has chosen on the command line.
type SpecsOptions struct {
	Debug bool `json:"debug,omitempty"` // the debug command runs in place of the run command
}

// StatusName returns the name of the ConfigMap of an application's Status.
func StatusName(application string) string { return application + statusAfter }

// ConfigMap returns the ConfigMap of Specs of an application.
func (s Specs) ConfigMap(namespace, application string) (*corev1.ConfigMap, error) {
	files, err := json.Marshal(s.Files)
	if err != nil {
		return nil, fmt.Errorf("encode the files of %s: %w", application, err)
	}
	options, err := json.Marshal(s.Options)
	if err != nil {
		return nil, fmt.Errorf("encode the options of %s: %w", application, err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application, Labels: labels(application, specsPart)},
		Data:       map[string]string{devfileKey: s.Devfile, filesKey: string(files), optionsKey: string(options)},
	}, nil
}

// SpecsOf returns the Specs that a ConfigMap holds.
func SpecsOf(config *corev1.ConfigMap) (Specs, error) {
	specs := Specs{Devfile: config.Data[devfileKey]}
	if specs.Devfile == "" {
		return Specs{}, fmt.Errorf("read the Specs of %s: the ConfigMap has no %s; run bellerophon dev again, or delete the ConfigMap", config.Name, devfileKey)
	}
	for key, into := range map[string]any{filesKey: &specs.Files, optionsKey: &specs.Options} {
		if config.Data[key] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(config.Data[key]), into); err != nil {
			return Specs{}, fmt.Errorf("read %s of the Specs of %s: %w", key, config.Name, err)
		}
	}
	return specs, nil
}

// IsSpecs reports whether a ConfigMap holds the Specs of an application.
func IsSpecs(config *corev1.ConfigMap) bool { return config.Labels[PartLabel] == specsPart }

func labels(application, part string) map[string]string {
	return map[string]string{ApplicationLabel: application, PartLabel: part}
}
