package contract

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxOutput is how much of a command's output Status keeps, in bytes. It is the end of the output.
const MaxOutput = 8 << 10

// Status is how far the controller has come with an application.
type Status struct {
	State   State    `json:"state"`
	Message string   `json:"message,omitempty"` // why the state is not higher, and what to do
	Specs   string   `json:"specs,omitempty"`   // the resource version of the ConfigMap of Specs that this is about
	Pod     string   `json:"pod,omitempty"`
	Sync    Sync     `json:"sync"`
	Build   *Command `json:"build,omitempty"`
	Run     *Command `json:"run,omitempty"`
	Ports   []Port   `json:"ports,omitempty"`
	Objects []Object `json:"objects,omitempty"` // what the devfile names, and the controller has applied
}

// Object names an object that the controller has applied because the devfile names it.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"` // empty for kinds without namespaces
	Name       string `json:"name"`
}

// Sync is what the pod has of the project's files.
type Sync struct {
	Root     string   `json:"root,omitempty"`     // the hash of the tree in the pod
	Files    int      `json:"files"`              // the number of files in the pod
	Sent     int      `json:"sent"`               // files that the last sync sent
	Removed  int      `json:"removed"`            // files that the last sync removed
	Bytes    int64    `json:"bytes"`              // bytes of content that the last sync sent
	Problems []string `json:"problems,omitempty"` // files that are not synced, with the reasons
}

// Outcome is what became of a command.
type Outcome string

// The outcomes of a command.
const (
	Running   Outcome = "Running"
	Succeeded Outcome = "Succeeded"
	Failed    Outcome = "Failed"
)

// Command is the last start of a command.
type Command struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Exit    int     `json:"exit,omitempty"`
	Starts  int     `json:"starts"`           // starts since the controller began
	Output  string  `json:"output,omitempty"` // the end of the output of a command that has failed; at most MaxOutput bytes
}

// Port is a port of the application that is forwarded to this machine.
type Port struct {
	Name   string `json:"name"`
	Target int    `json:"target"` // the port in the pod
	Local  string `json:"local"`  // host and port on the controller's machine
}

// ConfigMap returns the ConfigMap of the Status of an application.
func (s Status) ConfigMap(namespace, application string) (*corev1.ConfigMap, error) {
	status, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the Status of %s: %w", application, err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: StatusName(application), Labels: labels(application, statusPart)},
		Data:       map[string]string{stateKey: string(s.State), statusKey: string(status)},
	}, nil
}

// StatusOf returns the Status that a ConfigMap holds. It is the zero Status for a ConfigMap without one.
func StatusOf(config *corev1.ConfigMap) (Status, error) {
	var status Status
	if config.Data[statusKey] == "" {
		return status, nil
	}
	if err := json.Unmarshal([]byte(config.Data[statusKey]), &status); err != nil {
		return Status{}, fmt.Errorf("read the Status in %s: %w", config.Name, err)
	}
	return status, nil
}
