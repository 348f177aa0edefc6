package operators_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/types"
)

// TestNoOtherProcessCanComputeAnID runs itself in another process, and compares the ID of one attempt in both.
func TestNoOtherProcessCanComputeAnID(t *testing.T) {
	const isOther = "BELLEROPHON_TEST_OF_IDS"
	id := func() string {
		return operators.AttemptID("riders", types.NamespacedName{Namespace: "stable", Name: "pegasus"}, time.Unix(1, 2))
	}
	if os.Getenv(isOther) != "" {
		t.Log(id())
		return
	}
	ids := regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	if first, again := id(), id(); !ids.MatchString(first) || first != again {
		t.Errorf("the ID is %s, and then %s", first, again)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	other.Env = append(os.Environ(), isOther+"=yes")
	said, err := other.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if found := ids.Find(said); found == nil || string(found) == id() {
		t.Errorf("another process has the ID %q, this one %s", found, id())
	}
}
