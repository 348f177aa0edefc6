// Package browser runs a headless Chromium for pictures and for tests of pages.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// ErrUnavailable is the error of a machine without a working browser. Errors that wrap it name a way out.
var ErrUnavailable = errors.New("no browser")

// Use starts a headless Chromium and calls a function with a tab. When Use returns,
// the browser and its folder are gone.
func Use(ctx context.Context, use func(tab context.Context) error) (err error) {
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if program == "" {
		return fmt.Errorf("%w: find chromium on the PATH: no such program; install it (on Debian: apt-get install chromium)", ErrUnavailable)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses root. The pages come from this machine.
	}
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	tab, closeTab := chromedp.NewContext(allocator)
	defer closeTab()
	defer func() {
		if ended := chromedp.Cancel(tab); err == nil && ended != nil && ctx.Err() == nil {
			err = fmt.Errorf("stop %s: %w", program, ended)
		}
	}()
	if err := chromedp.Do(tab); err != nil {
		return fmt.Errorf("%w: start %s: %w; check that it starts at all: %s --headless --dump-dom about:blank", ErrUnavailable, program, err, program)
	}
	return use(tab)
}
