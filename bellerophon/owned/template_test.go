package owned

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestThePullPolicyIsTheDefaultOfKubernetes(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"server": corev1.PullAlways, "server:latest": corev1.PullAlways, "example.org:5000/a/server": corev1.PullAlways,
		"server:v1": corev1.PullIfNotPresent, "example.org:5000/a/server:v1": corev1.PullIfNotPresent,
		"server@sha256:0123": corev1.PullIfNotPresent, "server:latest@sha256:0123": corev1.PullAlways,
	} {
		if got := PullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
