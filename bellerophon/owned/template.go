package owned

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PullPolicy returns the policy that Kubernetes sets by default for an image: Always if its tag is latest, or if it has
// neither tag nor digest, and IfNotPresent otherwise. The API server sets the default at the creation only. After a
// change of the image it would be the one of the first image.
func PullPolicy(image string) corev1.PullPolicy {
	name, _, isPinned := strings.Cut(image, "@")
	_, tag, isTagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if tag == "latest" || (!isTagged && !isPinned) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// ConfigHash returns a short hash of settings. In the annotations of a template, a change of the settings replaces the pods.
func ConfigHash(config *corev1.ConfigMap) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(config.Data)) {
		sum.Write([]byte(name + "\x00" + config.Data[name] + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
