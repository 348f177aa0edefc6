package sources_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/sources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reflector waits up to 10 s after an error event, and keeps it to itself.
func TestAWatchThatEndsByAnErrorEventIsToldAsLost(t *testing.T) {
	for reason, code := range map[metav1.StatusReason]int{
		metav1.StatusReasonTooManyRequests: http.StatusTooManyRequests, metav1.StatusReasonInternalError: http.StatusInternalServerError,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				seen := observe(t, watching(t, server, sources.WatchOptions{}))
				connection := aged(t, server, configMap("a", "x", "5"))
				seen.told()
				connection.send(t, "ERROR", failure(code, reason, "no"))
				if told := seen.told(); !slices.Contains(told, "Disconnected @") {
					t.Errorf("during the wait told is %q, want that the connection is lost", told)
				}
				seen.stop(t)
			})
		})
	}
}
