package replay

import (
	"context"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// inTest calls a function with a test, and returns when the function has returned. Virtual time exists in tests alone, so
// this program runs a test of its own.
//
// The test itself ends only with the process, because package testing then prints a verdict and exits. So inTest
// may be called once, at the end of a program.
func inTest(ctx context.Context, run func(t *testing.T)) {
	done := make(chan struct{})
	group := lifecycle.New(context.WithoutCancel(ctx))
	group.Go("virtual time", func(context.Context) error {
		testing.Main(
			func(_, _ string) (bool, error) { return true, nil },
			[]testing.InternalTest{{Name: "replay", F: func(t *testing.T) {
				defer func() {
					close(done)
					<-group.Context().Done() // It never ends.
				}()
				run(t)
			}}}, nil, nil)
		return nil
	})
	<-done
}
