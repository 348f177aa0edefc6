package report

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/browser"
	"github.com/chromedp/chromedp"
)

// errNoPictures is the error of a machine without a working browser. Errors that wrap it name a
// way out.
var errNoPictures = errors.New("no pictures")

// drawLimit bounds the time for all pictures. A busy machine needs minutes.
const drawLimit = 5 * time.Minute

// drawPictures takes screenshots of the charts of a page, writes them into the folder of the run
// and returns their files.
func drawPictures(ctx context.Context, dir, page string, data pageData) ([]string, error) {
	absolute, err := filepath.Abs(page)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", page, err)
	}
	var drawn []string
	ctx, cancel := context.WithTimeoutCause(ctx, drawLimit, fmt.Errorf("draw pictures: not finished after %v; free the machine and try again", drawLimit))
	defer cancel()
	err = inBrowser(ctx, func(tab context.Context) error {
		if err := os.MkdirAll(filepath.Join(dir, "pictures"), 0o755); err != nil {
			return fmt.Errorf("make a folder for pictures: %w", err)
		}
		address := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute)}
		if err := chromedp.Do(tab, chromedp.EmulateViewport(1240, 900, chromedp.EmulateScale(1.5)), chromedp.Navigate(address.String())); err != nil {
			return fmt.Errorf("open %s: %w", page, err)
		}
		take := func(name, selector string) error {
			content, err := chromedp.Run(tab, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
			if err != nil {
				return fmt.Errorf("take a picture of %s: %w", name, err)
			}
			file := filepath.Join(dir, "pictures", fileName(name)+".png")
			if err := os.WriteFile(file, content, 0o644); err != nil {
				return fmt.Errorf("write a picture: %w", err)
			}
			drawn = append(drawn, file)
			return nil
		}
		for i, table := range data.Tables {
			if err := take(table.Name(), fmt.Sprintf(`[data-table="%d"]`, i)); err != nil {
				return err
			}
		}
		for _, group := range data.Groups {
			// A sweep has too many settings for pictures; report.html shows them.
			if !isDefault(group.setting) || !hasPoints(data.Series[group.Key]) {
				continue
			}
			if err := chromedp.Do(tab, pick("scenario", group.Name), waitShown(group.Key, "")); err != nil {
				return fmt.Errorf("show the time series of %s: %w", group.Name, err)
			}
			if err := take(group.Name+" series", "#panels"); err != nil {
				return err
			}
		}
		return nil
	})
	return drawn, err
}

func hasPoints(records map[string][]line) bool {
	for _, lines := range records {
		if slices.ContainsFunc(lines, func(l line) bool { return len(l.Points) > 0 }) {
			return true
		}
	}
	return false
}

// pick selects a value in a picker of the page and fires the event that the page listens to.
func pick(picker, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		const select = document.getElementById("pick-%s");
		select.value = %s;
		select.dispatchEvent(new Event("change"));
	}`, picker, strconv.Quote(value)))
}

// waitShown waits until the page has drawn one record of a group, or all if record is empty.
func waitShown(group, record string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitReady(chromedp.CSS(fmt.Sprintf(`#panels[data-shown=%s]`, strconv.Quote(group+"|"+record))))
}

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func fileName(name string) string {
	return strings.Trim(notInFileNames.ReplaceAllString(name, "-"), "-")
}

// inBrowser calls a function with a tab of a headless Chromium.
func inBrowser(ctx context.Context, use func(tab context.Context) error) error {
	err := browser.Use(ctx, use)
	if errors.Is(err, browser.ErrUnavailable) {
		return fmt.Errorf("%w: %w", errNoPictures, err)
	}
	return err
}
