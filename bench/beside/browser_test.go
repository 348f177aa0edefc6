package beside

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/browser"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var picture = flag.String("picture", "", "a file for a picture of the page in the browser")

func TestABrowserShowsAMarkForEachChange(t *testing.T) {
	sides := twoSides()
	served, err := newPage(t.Context(), sides)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("page", served.run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = browser.Use(ctx, func(tab context.Context) error {
		if err := chromedp.Do(tab, chromedp.EmulateViewport(1100, 760), chromedp.Navigate(served.URL())); err != nil {
			return err
		}
		until := func(condition string) error {
			for {
				is, err := chromedp.Run(tab, chromedp.Evaluate[bool](condition))
				if is || err != nil {
					return err
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		if err := until(`document.getElementById("state").textContent === "live" && document.querySelectorAll("svg").length === 2`); err != nil {
			return err
		}
		for range 20 {
			for i, side := range sides {
				side.mu.Lock()
				side.wanted["shero-1"] = want{1, time.Now().Add(-time.Duration(20+400*i) * time.Millisecond), false}
				side.mu.Unlock()
				side.see(readyHero("shero-1"))
			}
			<-time.After(50 * time.Millisecond)
		}
		if err := until(`document.querySelectorAll("svg circle").length === 40`); err != nil {
			return err
		}
		// The slower one has the higher marks, which are closer to the top.
		if err := until(`Number(document.querySelector(".side-0 circle").getAttribute("cy")) > Number(document.querySelector(".side-1 circle").getAttribute("cy"))`); err != nil {
			return err
		}
		if err := until(`document.querySelector("#rows tr:nth-child(2)").textContent.startsWith("quarkus1120")`); err != nil {
			return err
		}
		if *picture == "" {
			return nil
		}
		content, err := chromedp.Call(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: "png"})
		if err != nil {
			return err
		}
		return os.WriteFile(*picture, content.Data, 0o600)
	})
	group.Stop()
	if stopped := group.Wait(); stopped != nil {
		t.Error(stopped)
	}
	if errors.Is(err, browser.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
