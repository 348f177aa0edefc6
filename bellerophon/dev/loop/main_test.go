package loop_test

import (
	"flag"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// schedules is how many random schedules TestRandomSchedulesEndWithTheProjectsTree runs. The count is 10,000.
var (
	schedules = flag.Int("schedules", 100, "random schedules of edits, kills and outages")
	first     = flag.Int("first-schedule", 0, "the seed of the first of these schedules")
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())  // The Reflector logs each outage.
	utilruntime.ErrorHandlers = nil // They slow down by a clock that each bubble has anew.
	goleak.VerifyTestMain(m)
}
