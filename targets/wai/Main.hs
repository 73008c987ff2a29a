{-# LANGUAGE OverloadedStrings #-}

-- | Haskell's warp as its documentation shows it: a green thread per connection.
module Main (main) where

import qualified Data.ByteString as B
import qualified Data.ByteString.Lazy as L
import Data.String (fromString)
import GHC.Conc (setNumCapabilities)
import Network.HTTP.Types (hContentType, status200, status404)
import Network.Wai (Application, Response, rawPathInfo, responseLBS)
import qualified Network.Wai.Handler.Warp as Warp
import System.Environment (getArgs)

-- | Usage: wai HOST PORT WORKERS
main :: IO ()
main = do
  [host, port, workers] <- getArgs
  setNumCapabilities (read workers)
  let settings =
        Warp.setHost (fromString host)
          . Warp.setPort (read port)
          . Warp.setServerName "whyslow"
          $ Warp.defaultSettings
  Warp.runSettings settings application

application :: Application
application request respond = respond $ case rawPathInfo request of
  "/plaintext" -> fixed "text/plain" "Hello, World!"
  "/welcome" -> fixed "application/json" "Welcome!"
  "/" -> fixed "text/plain" text
  _ -> responseLBS status404 [(hContentType, "text/plain"), ("Content-Length", "9")] "Not Found"

-- | Without a Content-Length warp would send the body in chunks.
fixed :: B.ByteString -> L.ByteString -> Response
fixed contentType body =
  responseLBS status200 [(hContentType, contentType), ("Content-Length", size)] body
  where
    size = fromString (show (L.length body))

-- | 2 KiB
text :: L.ByteString
text = L.fromStrict (B.concat (replicate 32 line))
  where
    line = "A slow answer may have been made in no time and waited in line.\n"
