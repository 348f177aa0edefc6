package rundir

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and the digits of all histograms. Equal ones can be pooled.
const (
	shortest = time.Microsecond
	longest  = time.Hour
	digits   = 3
)

// Histogram holds latencies with three significant digits, from 1 µs to 1 hour. Its JSON is HdrHistogram's
// compressed form, which other implementations read too. Its unit is 1 µs. The zero Histogram has no latencies.
type Histogram struct {
	latencies *hdrhistogram.Histogram
	bars      []Bar // of latencies; a report asks for them many times
}

// HistogramOf returns the histogram of latencies. Longer latencies than an hour count as an hour.
func HistogramOf(latencies []time.Duration) Histogram {
	h := hdrhistogram.New(shortest.Microseconds(), longest.Microseconds(), digits)
	for _, latency := range latencies {
		// The latency is in the range, so it is recorded.
		_ = h.RecordValue(min(max(latency, shortest), longest).Microseconds())
	}
	return histogram(h)
}

// histogram wraps latencies that do not change any more.
func histogram(latencies *hdrhistogram.Histogram) Histogram {
	h := Histogram{latencies: latencies}
	for _, bar := range latencies.Distribution() {
		if bar.Count > 0 {
			h.bars = append(h.bars, Bar{time.Duration(bar.To) * time.Microsecond, bar.Count})
		}
	}
	return h
}

// Bar is a number of latencies that are equal in their first three digits.
type Bar struct {
	Latency time.Duration
	Count   int64
}

// Bars returns the latencies from the shortest to the longest. The caller does not change them.
func (h Histogram) Bars() []Bar { return h.bars }

// MarshalJSON implements json.Marshaler.
func (h Histogram) MarshalJSON() ([]byte, error) {
	text, err := h.latencies.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode a histogram: %w", err)
	}
	return json.Marshal(string(text))
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(encoded []byte) error {
	var text string
	if err := json.Unmarshal(encoded, &text); err != nil {
		return err
	}
	latencies, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("decode a histogram: %w", err)
	}
	*h = histogram(latencies)
	return nil
}
