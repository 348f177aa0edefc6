package sources_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/sources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reflector waits up to 10 s after an error event, and does not report it.
func TestAWatchThatEndsByAnErrorEventIsToldAsLost(t *testing.T) {
	for reason, code := range map[metav1.StatusReason]int{
		metav1.StatusReasonTooManyRequests: http.StatusTooManyRequests, metav1.StatusReasonInternalError: http.StatusInternalServerError,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				seen := observe(t, watching(t, server, sources.WatchOptions{}))
				connection := aged(t, server, configMap("a", "x", "5"))
				seen.emitted()
				connection.send(t, "ERROR", failure(code, reason, "no"))
				if emitted := seen.emitted(); !slices.Contains(emitted, "Disconnected @") {
					t.Errorf("during the wait the events are %q, want Disconnected", emitted)
				}
				seen.stop(t)
			})
		})
	}
}
